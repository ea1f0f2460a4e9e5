// A text that one page hands to the editor.

let handed = null;

// hand keeps a text for the editor, which takes it when it shows that document or file next. version is that of the
// document that it was made from, 0 for a file, and about says what it is.
export function hand(kind, name, { text, version, about }) {
  handed = { kind, name, text, version, about };
}

// take returns the text that was handed for a document or file, once; null for none.
export function take(kind, name) {
  const draft = handed?.kind === kind && handed.name === name ? handed : null;
  handed = null;
  return draft;
}
