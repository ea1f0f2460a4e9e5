// What people copy.

import { h } from "./dom.js";
import { notice } from "./parts.js";

// asByHand selects a text and copies it as a person would: browsers give a page that came
// without TLS from another machine no clipboard.
function asByHand(words) {
  const area = h("textarea", { class: "unseen", readOnly: true, tabindex: -1, "aria-label": "Text to copy", value: words });
  const had = document.activeElement;
  (had?.closest("dialog") ?? document.body).append(area);
  area.select();
  let done = false;
  try {
    done = document.execCommand("copy");
  } catch {
    // The browser does not do it; then it is said.
  }
  area.remove();
  had?.focus({ preventScroll: true });
  return done;
}

async function copied(words) {
  try {
    if (globalThis.navigator?.clipboard) {
      await navigator.clipboard.writeText(words);
      return true;
    }
  } catch {
    // Somebody has forbidden it to the page.
  }
  return asByHand(words);
}

// copyButton copies a text, and says so. what names it.
export function copyButton(what, words) {
  return h("button", { type: "button", class: "quiet copy", "aria-label": `Copy ${what}`, onclick: async () => {
    const done = await copied(words);
    notice(done ? `Copied: ${what}.` : `The browser does not let the page copy ${what}; hint: select it, and copy it by hand.`, done ? "allowed" : "denied");
  } }, "Copy");
}

// withCopy is a text in code beside what copies it.
export const withCopy = (what, words, shown = words) => [h("code", { title: words }, shown), " ", copyButton(what, words)];
