// What is set on a page stands in its address, for links and for who comes back.

// readdress puts wanted, the parameters of a page, into its address, and state beside it. Where the
// address is that of another page by now, which is shown a moment later, it leaves it alone and
// returns false.
export function readdress(page, wanted, state = null) {
  const [path] = location.hash.replace(/^#\/?/, "").split("?");
  if (path !== page) return false;
  history.replaceState(state, "", `#/${page}${wanted.size ? `?${wanted}` : ""}`);
  return true;
}
