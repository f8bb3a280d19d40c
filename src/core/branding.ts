import type { Mistake } from "../base/fault.ts";

/** The look of an environment's connect pages. Empty texts: the default look. */
export interface BrandingFields {
  readonly name: string;
  /** A `data:` URI. */
  readonly logo: string;
  /** `#rrggbb`. */
  readonly accentColor: string;
  readonly supportUrl: string;
}

const maxLogoBytes = 32_768;
const maxNameLength = 64;
const maxUrlLength = 2_048;

/** Returns the mistakes in a branding, with paths below `path`. */
export function checkBranding(
  { name = "", logo = "", accentColor = "", supportUrl = "" }: Partial<BrandingFields>,
  path: readonly string[],
): Mistake[] {
  const mistake = (field: string, message: string | undefined): Mistake[] =>
    message === undefined ? [] : [{ path: [...path, field], message }];
  return [
    ...mistake("name", name === "" ? undefined : nameMistake(name)),
    ...mistake("logo", logo === "" ? undefined : logoMistake(logo)),
    ...mistake(
      "accent_color",
      accentColor === "" || /^#[0-9a-f]{6}$/i.test(accentColor) ? undefined : "must be a color such as #1f4fbf",
    ),
    ...mistake("support_url", supportUrl === "" ? undefined : supportUrlMistake(supportUrl)),
  ];
}

/** A name in another direction of writing, or with line breaks, could forge the text around it. */
const nameMistake = (name: string): string | undefined =>
  name.length > maxNameLength || name.trim() !== name || /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)
    ? `must be one line of at most ${maxNameLength} characters`
    : undefined;

function supportUrlMistake(text: string): string | undefined {
  const isUrl = text.length <= maxUrlLength && URL.canParse(text) && /^(?:https|mailto):$/.test(new URL(text).protocol);
  return isUrl ? undefined : "must be an https or mailto URL";
}

function logoMistake(uri: string): string | undefined {
  const [, type = "", base64 = ""] =
    /^data:image\/(png|jpeg|webp|svg\+xml);base64,([A-Za-z0-9+/]+={0,2})$/.exec(uri) ?? [];
  if (type === "") return "must be a data: URI with base64 of a PNG, JPEG, WebP or SVG image";
  const bytes = Buffer.from(base64, "base64");
  if (bytes.length > maxLogoBytes) return `must be an image of at most ${maxLogoBytes / 1_024} KiB`;
  const isOfType = type === "svg+xml" ? isPlainSvg(bytes) : signatures[type]?.(bytes) === true;
  if (isOfType) return undefined;
  return type === "svg+xml"
    ? "must be an SVG image without scripts, links, styles of other files and document types"
    : `must be an image of the type that it names, ${type}`;
}

const signatures: Readonly<Record<string, (bytes: Buffer) => boolean>> = {
  png: (bytes) => bytes.subarray(0, 8).equals(Buffer.from("\x89PNG\r\n\x1a\n", "latin1")),
  jpeg: (bytes) => bytes.subarray(0, 3).equals(Buffer.from([0xff, 0xd8, 0xff])),
  webp: (bytes) => bytes.toString("latin1", 0, 4) === "RIFF" && bytes.toString("latin1", 8, 12) === "WEBP",
};

/** Browsers run nothing in an `<img>`. Active content is refused anyway: people open images by themselves. */
function isPlainSvg(bytes: Buffer): boolean {
  const text = bytes.toString("utf8");
  return (
    /^\s*(?:<\?xml[^>]*\?>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<svg[\s>]/is.test(text) &&
    !/<!doctype|<!entity|<\s*(?:\w+:)?(?:script|foreignObject|iframe|object|embed|a)[\s/>]/i.test(text) &&
    !/[\s"']on\w+\s*=|javascript:|@import|url\(\s*["']?(?!#)/i.test(text) &&
    !/href\s*=\s*["']?(?!["']?#|["']?data:image\/(?:png|jpeg|webp);)/i.test(text)
  );
}
