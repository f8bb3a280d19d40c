/** Fills of the marks; white on each has at least 4.5:1. The connect page draws the same marks. */
const fills = [
  ...["#4f46e5", "#7c3aed", "#a21caf", "#be185d", "#be123c", "#b45309"],
  ...["#4d7c0f", "#15803d", "#0f766e", "#0e7490", "#1d4ed8", "#475569"],
] as const;

/** Glyphs by category, in a square of 24. */
const glyphs: Readonly<Record<string, string>> = {
  calendar: "M4 8a2 2 0 0 1 2-2h12a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2zM4 11h16M8 3.5V8M16 3.5V8",
  mail: "M3.5 7.5a2 2 0 0 1 2-2h13a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2h-13a2 2 0 0 1-2-2zM4 7.5l8 6 8-6",
  "file-storage": "M3.5 7a2 2 0 0 1 2-2h3.7l2.3 2.5h7a2 2 0 0 1 2 2V17a2 2 0 0 1-2 2h-13a2 2 0 0 1-2-2z",
  spreadsheets:
    "M4.5 6a1.5 1.5 0 0 1 1.5-1.5h12A1.5 1.5 0 0 1 19.5 6v12a1.5 1.5 0 0 1-1.5 1.5H6A1.5 1.5 0 0 1 4.5 18zM4.5 9.5h15M4.5 14.5h15M10 9.5v10",
  documents:
    "M7 3.5h6.5L18 8v11a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 6 19V5a1.5 1.5 0 0 1 1-1.4M13.5 3.5V8H18M9 12.5h6M9 16h6",
  communication:
    "M4 7a2 2 0 0 1 2-2h12a2 2 0 0 1 2 2v7.5a2 2 0 0 1-2 2h-6l-4.5 3.5v-3.5H6a2 2 0 0 1-2-2zM8.5 9.5h7M8.5 12.5h4.5",
  "developer-tools": "M8.5 8L4.5 12l4 4M15.5 8l4 4-4 4M13.5 5.5l-3 13",
  crm: "M12 11a3 3 0 1 0-6 0 3 3 0 0 0 6 0M3.5 19.5a5.5 5.5 0 0 1 11 0M15.5 8.5a2.5 2.5 0 0 1 0 5M17 15.5a5 5 0 0 1 3.5 4",
  payments: "M3.5 8a2 2 0 0 1 2-2h13a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-13a2 2 0 0 1-2-2zM3.5 10.5h17M7 14.5h3",
  "e-commerce": "M6.5 8.5h11l1 11.5h-13zM9 8.5V7.5a3 3 0 0 1 6 0v1",
  "project-management": "M4.5 7l1.5 1.5L8.5 6M12 7.5h7.5M4.5 15.5L6 17l2.5-2.5M12 16h7.5",
  support:
    "M4.5 14v-2a7.5 7.5 0 0 1 15 0v2M4.5 13.5h2.5V18H6a1.5 1.5 0 0 1-1.5-1.5zM19.5 13.5H17V18h1a1.5 1.5 0 0 0 1.5-1.5zM19.5 16.5a4 4 0 0 1-4 3.5H13",
};

interface ProviderMarkProps {
  /** Name of the provider: it decides the color. */
  readonly name: string;
  readonly title: string;
  readonly categories?: readonly string[];
  readonly isLarge?: boolean;
}

/** The mark of a provider: the glyph of its category, or initials. The same provider always has the same color. */
export function ProviderMark({ name, title, categories = [], isLarge = false }: ProviderMarkProps) {
  const fill = fills[hashOf(name) % fills.length];
  const category = categories.find((one) => Object.hasOwn(glyphs, one));
  return (
    <svg class={isLarge ? "provider-mark large" : "provider-mark"} viewBox="0 0 48 48" aria-hidden="true">
      <rect width="48" height="48" rx="12" fill={fill} />
      {category === undefined ? (
        <text x="24" y="25" fill="#fff" text-anchor="middle" dominant-baseline="middle">
          {initialsOf(title || name)}
        </text>
      ) : (
        <path d={glyphs[category]} transform="translate(6.6 6.6) scale(1.45)" />
      )}
    </svg>
  );
}

/** Returns the first letters of two words. */
const initialsOf = (title: string): string =>
  (title.match(/[\p{L}\p{N}]+/gu) ?? ["?"])
    .slice(0, 2)
    .map((word) => [...word][0]?.toUpperCase() ?? "")
    .join("");

/** FNV-1a. */
function hashOf(text: string): number {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}
