import { expect, it } from "vitest";
import { networkOf } from "../../../../src/base/http/connection-limit.ts";
import { fitOpenFiles } from "../../../../src/base/http/open-files.ts";

it.each([
  ["192.0.2.7", "192.0.2.7"],
  ["::ffff:192.0.2.7", "192.0.2.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
  ["2001:db8:1:2::6", "2001:db8:1:2"],
  ["2001:db8::6", "2001:db8:0:0"],
  ["2001:db8::", "2001:db8:0:0"],
  ["::1", "0:0:0:0"],
  ["fe80::1%eth0", "fe80:0:0:0"],
])("takes %s for a client of %s", (address, network) => {
  expect(networkOf(address)).toBe(network);
});

it("keeps the limits of connections if there are enough files, and leaves files for all listeners if not", () => {
  const wanted = { data: 10_000, public: 2_000, control: 1_000, ops: 256, ui: 256, forwardProxy: 10_000 };
  expect(fitOpenFiles(wanted, undefined)).toEqual(wanted);
  expect(fitOpenFiles(wanted, 1_048_576)).toEqual(wanted);
  expect(fitOpenFiles(wanted, 1_024)).toEqual({
    data: 341,
    public: 102,
    control: 102,
    ops: 32,
    ui: 32,
    forwardProxy: 170,
  });
  expect(fitOpenFiles({ ...wanted, public: 5 }, 10)).toEqual({
    data: 8,
    public: 5,
    control: 8,
    ops: 8,
    ui: 8,
    forwardProxy: 8,
  });
});
