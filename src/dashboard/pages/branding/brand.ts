import type { Environment } from "../../../gen/latchkey/v1/environment_pb.ts";

/** The look of an environment's connect pages. Empty texts: the default look. */
export interface Brand {
  readonly name: string;
  /** A `data:` URI. */
  readonly logo: string;
  /** `#rrggbb`. */
  readonly accentColor: string;
  readonly supportUrl: string;
}

export const brandOf = ({ branding }: Environment): Brand => ({
  name: branding?.name ?? "",
  logo: branding?.logo ?? "",
  accentColor: branding?.accentColor ?? "",
  supportUrl: branding?.supportUrl ?? "",
});

const maskNames: Readonly<Record<keyof Brand, string>> = {
  name: "name",
  logo: "logo",
  accentColor: "accent_color",
  supportUrl: "support_url",
};

/** Returns the changed fields, as the update mask names them. */
export const changedFields = (before: Brand, after: Brand): readonly string[] =>
  (Object.keys(maskNames) as (keyof Brand)[])
    .filter((field) => before[field] !== after[field])
    .map((field) => maskNames[field]);

export const isColor = (text: string): boolean => /^#[0-9a-f]{6}$/i.test(text);

/** Images that the connect page shows, as `<img>`. */
export const isLogo = (uri: string): boolean => /^data:image\/(png|jpeg|webp|svg\+xml);base64,/.test(uri);

/** Relative luminance of a color (WCAG 2.2). */
function luminance(hex: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Text on the color, as the connect page chooses it: at least 4.5:1. */
export const textOn = (color: string): string => (1.05 / (luminance(color) + 0.05) >= 4.5 ? "#ffffff" : "#000000");
