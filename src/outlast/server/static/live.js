/* Keeps a page true: it says how old what it shows is, and greys when nobody can say any more.

   htmx's extension opens the stream and swaps the fragments in. This watches the stream: the time
   that is shown is the database's, as the server sent it; the browser's clock is asked nothing but
   whether the stream has fallen silent. */
"use strict";

(() => {
  const SILENT_MS = 6000;
  // A stream ends now and then, and the browser opens the next one within a second or two.
  const AGAIN_MS = 4000;
  const region = document.getElementById("live");
  const word = document.getElementById("status-word");
  const time = document.getElementById("as-of");
  if (!region || !word || !time) return;
  let source = null;
  let alarm = 0;
  let ended = false;
  let woken = 0;

  const say = (state, text) => {
    document.documentElement.dataset.stream = state;
    // Said anew only when it changes: a screen reader would read it out each second.
    if (word.textContent !== text) word.textContent = text;
  };
  const lost = () => say("lost", "Last known, as of");
  const alive = (asOf) => {
    ended = false;
    clearTimeout(alarm);
    alarm = setTimeout(lost, SILENT_MS);
    time.textContent = asOf;
    time.dateTime = asOf;
    word.title = "";
    say("live", "Live, as of");
  };
  const pause = () => {
    clearTimeout(alarm);
    if (source) source.close();
    say("paused", "Paused, as of");
  };
  const goOn = () => {
    // A new attribute has htmx set the region up anew, and so open a new stream.
    region.dataset.woken = String(++woken);
    htmx.process(region);
  };

  // A form that somebody may be filling in is not drawn anew.
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) => !(node.dataset && "keep" in node.dataset);
  htmx.createEventSource = (url) => {
    if (source) source.close();
    const opened = source = new EventSource(url);
    opened.addEventListener("beat", (event) => alive(event.data));
    opened.addEventListener("lost", (event) => {
      clearTimeout(alarm);
      word.title = event.data;
      lost();
    });
    opened.addEventListener("error", () => {
      if (opened !== source || document.hidden) return;
      if (opened.readyState === EventSource.CLOSED) {
        clearTimeout(alarm);
        lost();
      } else if (!ended) {
        // Each try that fails says so anew: the time runs from the first.
        ended = true;
        clearTimeout(alarm);
        alarm = setTimeout(lost, AGAIN_MS);
      }
    });
    if (document.hidden) setTimeout(pause); // opened behind another: nobody sees it yet
    return opened;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? pause() : goOn()));
  // A page that a browser takes out of its memory shows what was known then.
  window.addEventListener("pageshow", (event) => event.persisted && goOn());
  window.addEventListener("pagehide", () => source && source.close());
})();
