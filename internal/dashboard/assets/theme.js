// Runs before anything is drawn, so that nothing flashes in the other theme.
{
  let theme = null;
  try {
    theme = localStorage.getItem("headgate-theme");
  } catch {
    // A browser may keep nothing.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
