import { expect, it } from "vitest";
import { createFrameBoundary } from "../../../../src/relay/client/frame-boundary.ts";

/** A frame with so much in it, as a server writes it or, masked, as a client does (RFC 6455, section 5.2). */
function frame(size: number, isMasked: boolean): Buffer {
  const bit = isMasked ? 0x80 : 0;
  const length =
    size < 126
      ? [bit | size]
      : size < 65_536
        ? [bit | 126, size >> 8, size & 0xff]
        : [bit | 127, 0, 0, 0, 0, (size >>> 24) & 0xff, (size >> 16) & 0xff, (size >> 8) & 0xff, size & 0xff];
  // Bytes that look like a head are not one within a frame.
  return Buffer.concat([Buffer.from([0x82, ...length, ...(isMasked ? [1, 2, 3, 4] : [])]), Buffer.alloc(size, 0x81)]);
}

const sizes = [0, 1, 125, 126, 65_535, 65_536, 100_000];

it.each([true, false])("knows where frames of every form end, masked: %s, byte by byte", (isMasked) => {
  const boundary = createFrameBoundary();
  for (const size of sizes) {
    const bytes = frame(size, isMasked);
    expect(boundary.isBetweenFrames()).toBe(true);
    for (let at = 0; at < bytes.length; at += 1) {
      boundary.read(bytes.subarray(at, at + 1));
      expect(boundary.isBetweenFrames()).toBe(at === bytes.length - 1);
    }
  }
});

it("knows it of many frames that come as one, and of one that is cut", () => {
  const boundary = createFrameBoundary();
  const all = Buffer.concat(sizes.map((size, i) => frame(size, i % 2 === 0)));
  boundary.read(all);
  expect(boundary.isBetweenFrames()).toBe(true);
  boundary.read(all.subarray(0, all.length - 1));
  expect(boundary.isBetweenFrames()).toBe(false);
});
