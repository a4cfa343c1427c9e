// One episode: what the policy saw, did, and was credited for, as a conversation and token by token.

import { get } from "viewer/lib/api.js";
import { COLOURINGS, missing } from "viewer/lib/colour.js";
import { conversation } from "viewer/lib/conversation.js";
import { fill, h } from "viewer/lib/dom.js";
import { episodeHead } from "viewer/lib/episode_head.js";
import { episodePlaces } from "viewer/lib/episode_places.js";
import { choices, legend } from "viewer/lib/legend.js";
import { crumbs, stepParts } from "viewer/lib/places.js";
import { remember, to } from "viewer/lib/router.js";
import { tokenPanel } from "viewer/lib/token_panel.js";
import { tokenView } from "viewer/lib/token_view.js";

export async function show(place, { parts, query }) {
  const run = parts[1];
  const asked = query.set ? { set: query.set } : {};
  const episode = await get(parts, asked);
  const colours = choices(episode)
    .filter(({ key }) => !missing(key, episode))
    .map(({ key }) => key);
  const state = { view: query.view === "tokens" ? "tokens" : "conversation", colour: query.colour ?? "mask" };
  const address = () => ({
    ...asked,
    view: state.view === "tokens" ? "tokens" : null,
    colour: state.colour === "mask" ? null : state.colour,
  });
  const places = episodePlaces(run, episode, parts, address);
  const body = h("div", {});
  const tabs = ["conversation", "tokens"].map((view) => h("button", { "data-view": view, onclick: () => open(view) }, view));
  const views = {};
  fill(
    place,
    places.element,
    episodeHead(episode, goToTurn),
    h(
      "div",
      { class: "row tabs", role: "group", "aria-label": "View" },
      tabs,
      h("span", { class: "muted" }, h("kbd", {}, "t"), " switches"),
    ),
    body,
  );
  open(state.view);
  const keys = {
    ...places.keys,
    t: ["conversation or tokens", () => open(state.view === "tokens" ? "conversation" : "tokens")],
    c: ["next colour of the tokens", nextColour],
    ArrowRight: ["next token", (event) => press(event.key)],
    ArrowLeft: ["token before", (event) => press(event.key)],
  };
  return { title: titleOf(parts, episode), crumbs: way(run, parts, episode), keys };

  function open(view) {
    state.view = view;
    views[view] ??= view === "tokens" ? tokens() : { element: conversation(episode, parts, asked, goToTokens) };
    for (const tab of tabs) tab.setAttribute("aria-pressed", tab.dataset.view === view);
    fill(body, views[view].element);
    changed();
  }

  function tokens() {
    const panel = tokenPanel(episode);
    const more = async (segment, from) => (await get([...parts, "tokens"], { ...asked, segment, from })).tokens;
    const views = [draw()];
    const pair = h("div", { class: "pair" }, views);
    const choice = legend(episode, choose);
    paint();
    return {
      element: h("div", { class: "tokens-view" }, h("div", { class: "panel" }, choice, pair), panel),
      paint,
      press: (...given) => views[0].press(...given),
    };

    function draw() {
      return tokenView(episode, { show: panel.show, more, changed: redrawn, goTo: goToTurn });
    }

    /** Tokens that one side has fetched stand in both. */
    function redrawn() {
      if (views.length === 2) for (const side of [0, 1]) views[side].replaceWith((views[side] = draw()));
      paint();
    }

    function paint() {
      const colouring = COLOURINGS.find(({ key }) => key === shown());
      const two = colouring.key === "replayed";
      if (two && views.length === 1) pair.append((views[1] = draw()));
      pair.classList.toggle("two", two);
      choice.show(colouring, views[0].colour(two ? COLOURINGS.find(({ key }) => key === "advantage") : colouring));
      if (two) views[1].colour(colouring);
    }
  }

  /** The colour that was asked for, if this episode knows it; the address keeps the wish for the next one. */
  function shown() {
    return colours.includes(state.colour) ? state.colour : "mask";
  }

  function choose(key) {
    state.colour = key;
    open("tokens");
    views.tokens.paint();
  }

  function nextColour() {
    if (state.view === "tokens") choose(colours[(colours.indexOf(shown()) + 1) % colours.length]);
    else open("tokens");
  }

  function press(key) {
    if (state.view === "tokens") views.tokens.press(key);
  }

  /** Show a turn of the conversation. */
  function goToTurn(turn) {
    open("conversation");
    reveal(`[data-turn="${turn}"]`);
  }

  /** Show the tokens of a turn or a segment. */
  function goToTokens({ turn, segment }) {
    open("tokens");
    reveal(turn === undefined ? `[data-segment="${segment}"]` : `[data-turn="${turn}"]`);
  }

  function reveal(selector) {
    body.querySelector(selector)?.scrollIntoView({ block: "start" });
  }

  function changed() {
    remember(parts, address());
    places.links.update();
  }
}

function titleOf(parts, episode) {
  const place = parts[2] === "steps" ? `step ${parts[3]}` : parts[3];
  return `episode ${episode.row} of ${place}, ${parts[1]}`;
}

function way(run, parts, episode) {
  const room =
    parts[2] === "steps"
      ? [`step ${parts[3]}`, to(stepParts(run, parts[3]))]
      : [`evaluation ${parts[3]}`, to(["runs", run, "evaluations"])];
  return crumbs(run, room, [`episode ${episode.row}`, to(parts)]);
}
