import { expect, it } from "vitest";
import { KeySamples, keySample } from "../../../src/store/key-sample.ts";

const key = (i: number): string => `space\0${i % 7}\0${(i * 7_919).toString(36)}`;

it("gives equal keys equal samples, also short and empty ones", () => {
  for (const text of ["", "a", "é€\u{1f511}", "a key\0of several\0parts"]) {
    expect(keySample(text)).toBe(keySample(Buffer.from(text).toString()));
  }
});

it("finds each key that was added, however many share a slot, and few others", () => {
  for (const count of [1, 400, 20_000]) {
    const samples = new KeySamples();
    for (let i = 0; i < count; i += 1) samples.add(key(i));
    for (let i = 0; i < count; i += 1) expect(samples.mayHave(key(i))).toBe(true);
  }
  const samples = new KeySamples();
  for (let i = 0; i < 400; i += 1) samples.add(key(i));
  let others = 0;
  for (let i = 400; i < 10_400; i += 1) if (samples.mayHave(key(i))) others += 1;
  expect(others).toBeLessThan(100);
});

it("has nothing of the sets before, also after all numbers of sets", () => {
  const first = new KeySamples();
  first.add("k");
  expect(new KeySamples().mayHave("k")).toBe(false);
  for (let i = 0; i < 0x1_0000 - 2; i += 1) new KeySamples();
  const again = new KeySamples();
  again.add("another");
  again.add("k");
  expect([again.mayHave("another"), again.mayHave("k")]).toEqual([true, true]);
});

it("may have any key once there is a later set, and takes nothing from that one", () => {
  const [first, later] = [new KeySamples(), new KeySamples()];
  later.add("k");
  first.add("k");
  expect([first.mayHave("k"), first.mayHave("another")]).toEqual([true, true]);
  expect([later.mayHave("k"), later.mayHave("another")]).toEqual([true, false]);
});
