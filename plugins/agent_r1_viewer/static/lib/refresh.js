// News of runs come in bursts; reading them again need not.

/** A function that runs `load` at once, never twice at a time, and once more if it was called meanwhile. */
export function refresher(load) {
  let running = false;
  let again = false;
  return async function refresh() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      do {
        again = false;
        await load();
      } while (again);
    } catch (error) {
      // The next news tries again; meanwhile the page keeps what it shows.
      console.warn(error.message);
    } finally {
      running = false;
    }
  };
}
