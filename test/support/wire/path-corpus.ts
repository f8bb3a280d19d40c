/** Paths of a provider that climb, however their dots and slashes are written. */
export const climbing = [
  "/%2e%2e/%2e%2e/admin",
  "/../x",
  "/..",
  "/.",
  "/./x",
  "/a/..%2f..%2fb",
  "/.%2e/",
  "/%2E./x",
  "/a/%2e",
  "/a%2f..%2fb",
  "/a%2F%2E%2E",
  "/a%5c..%5cb",
  "/a/..%5Cb",
  "/..;/admin",
  "/a/..;x=y/admin",
  "/a/%2e%2e%3bx/admin",
  "/../x?y",
  "/..?y",
];

/** Fragments, and encoded line breaks and NUL. */
export const unsafe = ["/x#y", "/#", "/x?y#z", "/%00", "/a%0d%0aX:1", "/a%0A", "/a%0d", "/%00?x"];

/** Each of these paths is changed by something that builds URLs: `URL`, `encodeURI`, or a library that joins paths. */
export const faithful = [
  "/a{b}c",
  '/a"b',
  "/a<b>c",
  "/a`b",
  "/a'b",
  "/a?",
  "/a??",
  "/%41",
  "/a;p=1",
  "/a?q='x'",
  '/a?q="x"',
  "/a?q={x}&r=[y]",
  "/a|b^c",
  "/a%2Fb",
  "/a%2fb%2F",
  "/a%252e%252e/b",
  "/a%zz%",
  "/a+b%20c",
  "/a@b:c,d$e!f*(g)",
  "/~a/.b/...",
  "/a?b=c&b=c&&=&d",
  "/a?x=../..&y=/..%2f\\",
];

interface SpelledHosts {
  /** `127.0.0.1:port` of the provider. */
  readonly own: string;
  readonly port: number;
  /** Port of a server that is not the provider's. */
  readonly elsewhere: number;
}

/** Base URLs that are not the provider's, or not written as one. */
export const wrongBaseUrls = ({ own, port, elsewhere }: SpelledHosts): readonly string[] => [
  `https://evil.test`,
  `https://127.0.0.1:${elsewhere}`,
  `http://${own}`,
  `https://u@${own}`,
  `https://u:p@${own}`,
  `https://@${own}`,
  `https://${own}@evil.test`,
  `https://evil.test/@${own}`.replace("/", "\\"),
  `https://${own}.evil.test`,
  `https://${own}?`,
  `https://${own}/?x=y`,
  `https://${own}#`,
  `https://${own}#x`,
  `https://${own}\\@evil.test`,
  `https://evil.test\\${own}`,
  `https:\\\\${own}`,
  `https:${own}`,
  `https:/${own}`,
  `https:///${own}`,
  `//${own}`,
  own,
  `/x`,
  `wss://${own}`,
  `ftp://${own}`,
  "unix:/var/run/docker.sock",
  "file:///etc/passwd",
  "data:,x",
  "javascript:alert(1)",
  "https://metadata.google.internal.",
  "https://169.254.169.254",
  "https://169.254.169.254.",
  ...["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "localhost", "localhost."].map(
    (host) => `https://${host}:${port}`,
  ),
  `https://127.0.0.1.:${port}`,
  `https://127.0.0.01:${port}`,
  `https://127.0.0.1%2e:${port}`,
  `https://%31%32%37.0.0.1:${port}`,
  `https://[::ffff:127.0.0.1]:${port}`,
  `https://[::1]:${port}`,
  "https://①②⑦.⓪.⓪.①",
  "https://127。0。0。1",
  `https://127.0.0.1:0${port}`,
  `https://127.0.0.1:`,
  `https://127.0.0.1`,
  `https://127.0.0.1 :${port}`,
  `https://127.0.0.1\t:${port}`,
  `https://${own}/${"a".repeat(8 * 1024)}`,
];
