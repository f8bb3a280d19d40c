const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Template tag: escapes its values, except values that are markup themselves. */
export interface Html {
  readonly html: string;
}

export function html(
  parts: TemplateStringsArray,
  ...holes: readonly (string | number | Html | readonly Html[])[]
): Html {
  const filled = parts.map((part, i) => part + fill(holes[i] ?? ""));
  return { html: filled.join("") };
}

function fill(hole: string | number | Html | readonly Html[]): string {
  if (typeof hole === "string" || typeof hole === "number") {
    return String(hole).replace(/[&<>"']/g, (character) => escapes[character] ?? "");
  }
  return "html" in hole ? hole.html : hole.map((one) => one.html).join("");
}
