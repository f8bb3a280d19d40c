import { expect, it } from "vitest";
import { mistakeInPath } from "../../../../src/core/outgoing/provider-path.ts";

it.each([
  "/",
  "//",
  "/a//b",
  "/a/.b/..c/...",
  "/a.b/c..d",
  "/a;p=../x",
  "/%2F%40",
  "/a%252e%252e/b",
  "/%zz%",
  "/a?../..",
  "/a?\\%00%0a",
  "/{a}\"<>`'|^",
])("takes %s as it is", (path) => {
  expect(mistakeInPath(path)).toBeUndefined();
});

it.each([
  ["", "begin with a slash"],
  ["a", "begin with a slash"],
  ["?a", "begin with a slash"],
  ["@evil.test/x", "begin with a slash"],
  ["/a b", "visible ASCII"],
  ["/a\t", "visible ASCII"],
  ["/a\u00e9", "visible ASCII"],
  ["/a?b\u007f", "visible ASCII"],
  ["/a\r\nX: y", "visible ASCII"],
  ["/a#b", "fragment"],
  ["/a?b#c", "fragment"],
  ["/\\evil.test", "backslash"],
  ["/%00", "NUL or line break"],
  ["/%0D%0a", "NUL or line break"],
  ["/.", "dot segments"],
  ["/..", "dot segments"],
  ["/a/../b", "dot segments"],
  ["/%2e%2E/", "dot segments"],
  ["/a/.%2e", "dot segments"],
  ["/a/..%2fb", "dot segments"],
  ["/a%5c..%5cb", "dot segments"],
  ["/..;x/a", "dot segments"],
  ["/%2e.%3Bx", "dot segments"],
])("refuses %j", (path, why) => {
  expect(mistakeInPath(path)).toContain(why);
});
