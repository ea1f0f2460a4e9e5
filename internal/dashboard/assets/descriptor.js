// Descriptors as text, as descriptor.Format of the Go side writes them:
// key:value,key:value with backslashes before what would end them.

const utf8 = new TextEncoder();
const read = new TextDecoder();

// parse returns the entries of a text, or throws with what is wrong with it.
export function parse(text) {
  const entries = [];
  let at = 0;
  const until = (stops) => {
    const out = [];
    while (at < text.length && !stops.includes(text[at])) {
      if (text[at] !== "\\") {
        const letter = String.fromCodePoint(text.codePointAt(at));
        out.push(...utf8.encode(letter));
        at += letter.length;
        continue;
      }
      const hex = /^\\x([0-9a-fA-F]{2})/.exec(text.slice(at, at + 4));
      if (hex) {
        out.push(parseInt(hex[1], 16));
        at += 4;
      } else if ("\\,:".includes(text[at + 1] ?? " ")) {
        out.push(text.charCodeAt(at + 1));
        at += 2;
      } else {
        throw new Error(`unknown escape at letter ${at + 1}; hint: \\\\ \\, \\: or \\xNN`);
      }
    }
    return read.decode(new Uint8Array(out));
  };
  while (at < text.length) {
    const key = until(":,");
    if (text[at] !== ":" || key === "") throw new Error("not a descriptor; hint: key:value,key:value");
    at += 1;
    entries.push({ key, value: until(",") });
    if (at === text.length) break;
    at += 1; // the comma
    if (at === text.length) throw new Error("nothing after the last comma; hint: key:value,key:value");
  }
  return entries;
}

// isCut reports whether a text is that of a key which is too long to be written: its
// beginning, and a hash.
export function isCut(text) {
  return /…[0-9a-f]{16}$/.test(text);
}

// format is the inverse of parse.
export function format(entries) {
  return entries.map((e) => `${e.key.replace(/[\\,:]/g, "\\$&")}:${e.value.replace(/[\\,]/g, "\\$&")}`).join(",");
}
