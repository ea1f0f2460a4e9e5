// The only way that this dashboard makes elements. Nothing here reads HTML: what requests
// have brought in keys, names and agents is text and stays text.

const properties = new Set(["value", "checked", "disabled", "selected", "hidden", "open", "required", "readOnly", "multiple"]);

function set(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) {
      if (typeof value !== "function") throw new TypeError(`${name} is not a function`);
      element.addEventListener(name.slice(2), value);
    } else if (properties.has(name)) {
      element[name] = value;
    } else if (name === "style" || name === "srcdoc" || name === "src") {
      throw new TypeError(`${name} is for style sheets and index.html`);
    } else if (name === "href" && !/^(#|\/[^/])/.test(value)) {
      throw new TypeError("a link leads out of the dashboard");
    } else if (value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
}

function fill(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

// h makes an element. Names of props that begin with "on" are listeners; children are
// elements and text, in lists of any depth, and null for none.
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  set(element, props);
  return fill(element, children);
}

// flags is a text whose names of settings, such as --state-dir, stay on one line.
export const flags = (words) => String(words).split(/(--[a-z][a-z-]*[a-z])/).map((part, i) => (i % 2 ? h("span", { class: "flag" }, part) : part));

// svg is h for drawings.
export function svg(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, props);
  return fill(element, children);
}

// put replaces what is in an element.
export function put(element, ...children) {
  element.replaceChildren();
  return fill(element, children);
}

// text sets the text of an element where it differs: a selection in it and what reads it
// aloud are left in peace.
export function text(element, value) {
  value = String(value);
  if (element.textContent !== value) element.textContent = value;
  return element;
}

// attr sets an attribute where it differs; null takes it away.
export function attr(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// keyed keeps the children of parent in line with a list, one for each item, and keeps
// the child of an item for as long as the item is there: focus and selections stay.
// make(item) returns {element, update}; update(item) is called for each item of each list.
export function keyed(parent, keyOf, make) {
  const kept = new Map();
  return (items) => {
    const focused = parent.contains(document.activeElement) ? document.activeElement : null;
    const seen = new Set();
    let next = parent.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      if (seen.has(key)) continue;
      seen.add(key);
      let child = kept.get(key);
      if (!child) kept.set(key, (child = make(item)));
      child.update(item);
      if (child.element === next) next = next.nextElementSibling;
      else parent.insertBefore(child.element, next);
    }
    for (const [key, child] of kept) {
      if (seen.has(key)) continue;
      child.element.remove();
      kept.delete(key);
    }
    if (focused && focused.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
  };
}

let ids = 0;

// id returns one that no other element has.
export function id(what) {
  ids += 1;
  return `${what}-${ids}`;
}
