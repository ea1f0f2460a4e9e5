// The search of the pages. The index is a script that is loaded when somebody searches: a page
// that is opened as a file may load scripts beside it, and may not fetch anything.
"use strict";
(() => {
  const root = document.currentScript.dataset.root;
  const query = document.getElementById("query");
  const results = document.getElementById("results");
  const shown = 12;

  let loading;
  const load = () => loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = root + "search-index.js";
    script.onload = () => resolve(window.searchIndex.map(part => ({
      ...part,
      page: part.p.toLowerCase(), heading: (part.h ?? "").toLowerCase(), text: part.t.toLowerCase(),
    })));
    script.onerror = () => reject(new Error("search-index.js is not beside the pages"));
    document.head.append(script);
  });

  // score is 0 where a word of the query is nowhere in a part. A word in a title is worth more
  // than one in a heading, and that more than words in the text.
  const score = (part, words) => {
    let sum = 0;
    for (const word of words) {
      let found = 0;
      if (part.page.includes(word)) found += part.h ? 4 : 30;
      if (part.heading.includes(word)) found += 20;
      let at = part.text.indexOf(word);
      for (let times = 0; at >= 0 && times < 5; times++) {
        found++;
        at = part.text.indexOf(word, at + word.length);
      }
      if (found === 0) return 0;
      sum += found;
    }
    return sum;
  };

  const element = (name, ...children) => {
    const made = document.createElement(name);
    made.append(...children);
    return made;
  };

  // excerpt returns the text around the first word that is in it, with the word marked.
  const excerpt = (part, words) => {
    const at = Math.min(...words.map(word => part.text.indexOf(word)).filter(i => i >= 0));
    if (!Number.isFinite(at)) return element("small", part.t.slice(0, 160));
    const word = words.find(word => part.text.startsWith(word, at));
    const from = Math.max(0, at - 60);
    return element("small", from > 0 ? "... " : "", part.t.slice(from, at), element("mark", part.t.slice(at, at + word.length)),
      part.t.slice(at + word.length, at + 120), " ...");
  };

  const search = async () => {
    const asked = query.value;
    const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
    results.hidden = words.length === 0;
    if (results.hidden) return;
    let index;
    try {
      index = await load();
    } catch (err) {
      results.replaceChildren(element("p", err.message));
      return;
    }
    if (query.value !== asked) return; // somebody typed on meanwhile
    const found = index.map(part => ({part, score: score(part, words)})).filter(f => f.score > 0)
      .sort((a, b) => b.score - a.score).slice(0, shown);
    results.replaceChildren(...found.map(({part}) => {
      const link = element("a", element("b", part.p), part.h ? " - " + part.h : "", excerpt(part, words));
      link.href = root + part.a;
      return link;
    }));
    if (found.length === 0) results.replaceChildren(element("p", "Nothing has all of these words."));
  };

  const close = () => { results.hidden = true; };

  query.addEventListener("input", search);
  query.addEventListener("focus", search);
  document.getElementById("search").addEventListener("submit", event => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  document.getElementById("search").addEventListener("keydown", event => {
    const links = [query, ...results.querySelectorAll("a")];
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step) {
      event.preventDefault();
      links[links.indexOf(document.activeElement) + step]?.focus();
    } else if (event.key === "Escape") {
      close();
    }
  });
  results.addEventListener("click", close);
  document.addEventListener("click", event => {
    if (!event.target.closest("#search")) close();
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !event.target.closest("input, textarea")) {
      event.preventDefault();
      query.focus();
    }
  });
})();
