/** Scheme, host and port of pages, as browsers send them: `https://app.example.com`. */
export const isOrigin = (text: string): boolean =>
  /^https?:\/\//.test(text) && URL.canParse(text) && new URL(text).origin === text;

/** Reports whether the origin is a page served by this machine, such as an application under development. */
export const isLocalOrigin = (text: string): boolean =>
  isOrigin(text) && text.startsWith("http:") && ["localhost", "127.0.0.1", "[::1]"].includes(new URL(text).hostname);
