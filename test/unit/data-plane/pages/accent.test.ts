import { describe, expect, it } from "vitest";
import { contrast, shadesOf } from "../../../../src/data-plane/pages/accent.ts";

const accents = ["#000000", "#ffffff", "#ffd400", "#00ff00", "#1f4fbf", "#e4572e", "#777777", "#0c0c0c", "#fefefe"];

describe("shades of an accent color", () => {
  it("measures contrast as WCAG does", () => {
    expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
    expect(contrast("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
  });

  it.each(accents)("are readable in both themes for %s", (accent) => {
    for (const [isDark, backgrounds] of [
      [false, ["#ffffff", "#f4f5f7"]],
      [true, ["#1e2127", "#14161a"]],
    ] as const) {
      const { fill, onFill, edge, link } = shadesOf(accent, { isDark, backgrounds });
      expect(fill).toBe(accent);
      expect(contrast(onFill, fill)).toBeGreaterThanOrEqual(4.5);
      for (const background of backgrounds) {
        expect(contrast(edge, background)).toBeGreaterThanOrEqual(3);
        expect(contrast(link, background)).toBeGreaterThanOrEqual(4.5);
      }
    }
  });
});
