/** Light, dark, or as the system says. */
import { effect, signal } from "@preact/signals";

export type ColorTheme = "system" | "light" | "dark";
const storedName = "latchkey-theme";

const stored = window.localStorage.getItem(storedName);
export const theme = signal<ColorTheme>(stored === "light" || stored === "dark" ? stored : "system");

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  window.localStorage.setItem(storedName, theme.value);
});
