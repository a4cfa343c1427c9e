// The tags and the note that a reader keeps beside a run, and the form that changes them.

import { ApiError, send } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { beginning } from "viewer/lib/visible.js";

/** A remark in the list of runs; null where there is none. */
export function remarkLine(remark) {
  if (!remark?.tags.length && !remark?.note) return null;
  return h("p", { class: "row remark" }, tagsOf(remark), h("span", { class: "muted" }, beginning(remark.note, 160)));
}

/** The remark of a run on its page: an element with update(remark), which leaves alone what is being written. */
export function remarkOf(id) {
  const element = h("div", { class: "remark", "data-part": "remark" });
  let remark = null;
  let editing = false;
  element.update = (now) => {
    if (editing || JSON.stringify(now) === JSON.stringify(remark)) return;
    remark = now;
    draw();
  };
  element.edit = edit;
  return element;

  function draw() {
    editing = false;
    const empty = !remark?.tags.length && !remark?.note;
    const button = h("button", { onclick: edit }, empty ? "Add tags or a note" : "Change");
    fill(element, remark && [h("div", { class: "row" }, tagsOf(remark), button), remark.note && h("pre", { class: "text" }, remark.note)]);
  }

  function edit() {
    if (!remark || editing) return;
    editing = true;
    const tags = h("input", { "aria-label": "Tags", placeholder: "tags, with commas between them", value: remark.tags.join(", ") });
    const note = h("textarea", { "aria-label": "Note", placeholder: "note", rows: 4 }, remark.note);
    const said = h("span", { class: "problem", role: "status" });
    const save = h("button", { onclick: keep }, "Save");
    fill(element, tags, note, h("div", { class: "row" }, save, h("button", { onclick: draw }, "Cancel"), said));
    tags.focus();

    async function keep() {
      save.disabled = true;
      try {
        remark = await send(["runs", id, "remark"], { tags: tags.value.split(","), note: note.value });
        draw();
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        save.disabled = false;
        fill(said, error.message);
      }
    }
  }
}

function tagsOf({ tags }) {
  return tags.map((tag) => h("span", { class: "badge" }, tag));
}
