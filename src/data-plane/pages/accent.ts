/** An sRGB color, each part from 0 to 255. */
type Rgb = readonly [number, number, number];

const parse = (hex: string): Rgb => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as unknown as Rgb;
const format = (color: Rgb): string =>
  `#${color.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;

/** Relative luminance (WCAG 2.2). */
function luminance(hex: string): number {
  const [r, g, b] = parse(hex).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as unknown as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Contrast ratio of two colors, from 1 to 21 (WCAG 2.2). */
export function contrast(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

/** Mixes a color with black or white, in the smallest step that gives the ratio on every background. */
function adjusted(color: string, toward: string, ratio: number, backgrounds: readonly string[]): string {
  const [from, to] = [parse(color), parse(toward)];
  for (let share = 0; share <= 1; share += 0.02) {
    const mixed = format(from.map((part, i) => part + ((to[i] ?? 0) - part) * share) as unknown as Rgb);
    if (backgrounds.every((background) => contrast(mixed, background) >= ratio)) return mixed;
  }
  return toward;
}

/** The shades of an accent color that a theme uses. */
export interface AccentShades {
  /** Fill of buttons: the color as it is. */
  readonly fill: string;
  /** Text on the fill, at least 4.5:1. */
  readonly onFill: string;
  /** Border of buttons, at least 3:1 on the page. */
  readonly edge: string;
  /** Links and focus rings, at least 4.5:1 on the page. */
  readonly link: string;
}

interface ThemeBackgrounds {
  readonly isDark: boolean;
  readonly backgrounds: readonly string[];
}

export function shadesOf(accent: string, { isDark, backgrounds }: ThemeBackgrounds): AccentShades {
  const fill = accent.toLowerCase();
  const away = isDark ? "#ffffff" : "#000000";
  return {
    fill,
    // One of black and white always has 4.5:1.
    onFill: contrast("#ffffff", fill) >= 4.5 ? "#ffffff" : "#000000",
    edge: adjusted(fill, away, 3, backgrounds),
    link: adjusted(fill, away, 4.5, backgrounds),
  };
}
