import { describe, expect, it } from "vitest";
import { changedEvent, EventSplitter } from "../../../../src/core/mcp/event-splitter.ts";
import { isJson, withTools } from "../../../../src/core/mcp/tool-list.ts";
import { createRandom } from "../../../support/policies/random.ts";

const tool = (name: string) => ({ name, inputSchema: { type: "object" } });
const list = (...names: string[]) => ({ jsonrpc: "2.0", id: 1, result: { tools: names.map(tool), nextCursor: "c" } });
const isRead = (name: string) => name.startsWith("read");
const namesIn = (text: string | undefined): string[] =>
  JSON.parse(text ?? "{}").result.tools.map(({ name }: { readonly name: string }) => name);

describe("a list of tools", () => {
  it("keeps the tools that may be called, and everything else of the answer", () => {
    const shown = withTools(JSON.stringify(list("read_page", "delete_page", "read")), isRead);
    expect(JSON.parse(shown ?? "")).toEqual(list("read_page", "read"));
  });

  it("drops what has no name, and keeps numbers that a double cannot hold", () => {
    const text = '{"id":12345678901234567890,"result":{"tools":[1,{"name":2},{"name":"read","max":1e400}]}}';
    expect(withTools(text, isRead)).toBe(
      '{"id":12345678901234567890,"result":{"tools":[{"name":"read","max":1e400}]}}',
    );
  });

  it("is written without the keys that another parser could prefer", () => {
    const text =
      '{"result":{"tools":[{"name":"delete"}]},"result":{"tools":[{"name":"read"}],"tools":[{"name":"read"}]}}';
    expect(withTools(text, isRead)).toBe('{"result":{"tools":[{"name":"read"}]}}');
  });

  it("is no longer for everybody", () => {
    const text = '{"result":{"tools":[],"cacheScope":"public"}}';
    expect(withTools(text, isRead)).toBe('{"result":{"tools":[],"cacheScope":"private"}}');
  });

  it("is found in a list of messages, whose others stay", () => {
    const text = JSON.stringify([{ id: 2, result: {} }, list("delete", "read")]);
    expect(JSON.parse(withTools(text, isRead) ?? "")).toEqual([{ id: 2, result: {} }, list("read")]);
  });

  it.each(['{"error":{"message":"no tools"}}', '{"result":{"content":[]}}', '{"params":{"tools":[]}}', "[]", "", "{"])(
    "is not seen in %s",
    (text) => {
      expect(withTools(text, isRead)).toBe(undefined);
      expect(isJson(text)).toBe(!["", "{"].includes(text));
    },
  );
});

describe("an event stream", () => {
  const streams = [
    "event: message\nid: 1\ndata: a\n\n: comment\n\ndata: b\ndata: c\n\n",
    "\ufeffdata: a\r\n\r\ndata: b\r\n\r\n",
    "data: a\r\rdata: b\r\r",
    "data: a\r\n\ndata: b\n\r\n\n\r\r\n",
    "data: a\n\ndata: unfinished",
  ];

  /** What a reader gets of a stream, by the rules of the specification of HTML. */
  const linesOf = (text: string) => text.split(/\r\n|\n|\r/);

  it.each(streams)("is split into the same events, however it arrives: %j", (stream) => {
    const whole = Buffer.from(stream);
    const random = createRandom(7);
    const expected = new EventSplitter(1_000)
      .push(whole)
      ?.map(String)
      .filter((event) => event !== "\n");
    for (let round = 0; round < 200; round += 1) {
      const splitter = new EventSplitter(1_000);
      const events: string[] = [];
      for (let at = 0; at < whole.length; ) {
        const next = Math.min(whole.length, at + 1 + random.below(4));
        events.push(...(splitter.push(whole.subarray(at, next)) ?? []).map(String));
        at = next;
      }
      events.push(splitter.end().toString());
      expect(events.join("")).toBe(stream);
      const shown = events.filter((event) => linesOf(event).some((line) => line !== ""));
      const wanted = (expected ?? []).filter((event) => linesOf(event).some((line) => line !== ""));
      expect(shown.slice(0, wanted.length).map((event) => linesOf(event).filter((line) => line !== ""))).toEqual(
        wanted.map((event) => linesOf(event).filter((line) => line !== "")),
      );
    }
  });

  it("refuses an event that is too large", () => {
    const splitter = new EventSplitter(10);
    expect(splitter.push(Buffer.from("data: 123"))).toEqual([]);
    expect(splitter.push(Buffer.from("45"))).toBe(undefined);
  });

  it("gets other data in an event, and no other bytes elsewhere", () => {
    const event = Buffer.from(`id: 7\r\nevent: message\r\ndata: ${JSON.stringify(list("read", "delete"))}\r\n\r\n`);
    const changed = changedEvent(event, (data) => withTools(data, isRead)).toString();
    expect(changed).toMatch(/^id: 7\nevent: message\ndata: .*\n\n$/);
    expect(namesIn(/^data: (.*)$/m.exec(changed)?.[1])).toEqual(["read"]);
    for (const other of ["data: {}\n\n", ": data\n\n", "\n", "data\n\n", "datax: {}\n\n"]) {
      expect(changedEvent(Buffer.from(other), (data) => withTools(data, isRead)).toString()).toBe(other);
    }
  });

  it("is read over all lines of its data, and after a byte order mark", () => {
    const [first, second] = ['{"result":{"tools":', '[{"name":"delete"}]}}'];
    const event = Buffer.from(`\ufeffdata:${first}\ndata: ${second}\n\n`);
    expect(changedEvent(event, (data) => withTools(data, isRead)).toString()).toBe('data: {"result":{"tools":[]}}\n\n');
  });
});
