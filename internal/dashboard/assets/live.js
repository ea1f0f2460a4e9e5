// What comes by itself: server-sent events, and what was seen of them.

import { url, get } from "./api.js";

const firstWait = 1000;
const longestWait = 30000;
// A hidden tab gives its stream back after a while: a browser has six connections to a
// host, and every tab would hold one.
const hiddenFor = 60000;

// follow listens to a stream, and again when it has broken off, after a wait that grows.
// handlers are by type of event and get its data. onState gets {live, since, retryIn}:
// since is when the last was heard. silence, in ms, is how long a stream may say nothing.
// It returns what ends it.
export function follow(address, handlers, onState, silence = 0) {
  let source = null;
  let wait = firstWait;
  let timer = null;
  let quiet = null;
  let heard = Date.now();
  let ended = false;

  const alive = () => {
    heard = Date.now();
    wait = firstWait;
    clearTimeout(quiet);
    if (silence) quiet = setTimeout(lost, silence);
  };

  const lost = async () => {
    source?.close();
    source = null;
    clearTimeout(quiet);
    clearTimeout(timer);
    if (ended || document.hidden) return;
    const retryIn = wait * (0.75 + Math.random() / 2);
    wait = Math.min(wait * 2, longestWait);
    onState({ live: false, since: heard, retryIn });
    timer = setTimeout(open, retryIn);
    try {
      await get("me"); // tells a session that has ended from a node that is away
    } catch {
      // Whoever listens for the end of the session has heard of it.
    }
  };

  const open = () => {
    clearTimeout(timer);
    if (ended || source) return;
    source = new EventSource(address);
    source.onopen = () => {
      alive();
      onState({ live: true, since: heard });
    };
    source.onerror = lost;
    for (const [type, call] of Object.entries(handlers)) {
      source.addEventListener(type, (event) => {
        alive();
        call(JSON.parse(event.data));
      });
    }
  };

  let hide = null;
  const seen = () => {
    clearTimeout(hide);
    if (document.hidden) {
      hide = setTimeout(() => {
        source?.close();
        source = null;
        clearTimeout(quiet);
      }, hiddenFor);
    } else if (!source) {
      wait = firstWait;
      open();
    }
  };
  document.addEventListener("visibilitychange", seen);
  open();
  return () => {
    ended = true;
    source?.close();
    for (const t of [timer, quiet, hide]) clearTimeout(t);
    document.removeEventListener("visibilitychange", seen);
  };
}

// remembered is how much of the past the charts have, in ms.
export const remembered = 5 * 60 * 1000;

// live is what all pages see: the overview and the fleet at all times, keys where the page asks
// for them.
export const live = {
  overview: null,
  state: { live: false, since: null },
};

const calls = { overview: new Set(), keys: new Set(), fleet: new Set(), state: new Set() };
let stop = null;
let topics = "";

const tell = (what, data) => {
  for (const call of calls[what]) call(data);
};

let ahead = 0; // how far the clock of the node is ahead of that of this browser, in ms

// nodeNow is the time by the clock of the node that serves the page, in ms: that of a browser may be off.
export const nodeNow = () => Date.now() + ahead;

function overview(data) {
  live.overview = data;
  ahead = Date.parse(data.at) - Date.now();
  tell("overview", data);
}

const silence = 8000; // an overview comes each second

// listen opens the stream with what a page needs beside the overview.
export function listen(...more) {
  const wanted = ["overview", "fleet", ...more].join(",");
  if (stop && wanted === topics) return;
  topics = wanted;
  stop?.();
  stop = follow(url("live", { topics }), { overview, keys: (data) => tell("keys", data), fleet: (data) => tell("fleet", data) }, (state) => {
    live.state = state;
    tell("state", state);
  }, silence);
}

// silent ends the stream and forgets all: somebody else may log in.
export function silent() {
  stop?.();
  stop = null;
  live.overview = null;
}

// on calls for each of what comes, and at once for what is there. It returns what ends it.
export function on(what, call) {
  calls[what].add(call);
  if (what === "overview" && live.overview) call(live.overview);
  if (what === "state") call(live.state);
  return () => calls[what].delete(call);
}
