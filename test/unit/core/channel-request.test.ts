import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { type ChannelValues, filledChannelRequest } from "../../../src/broker/tokens/request-template.ts";
import { RequestTemplateSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";

const template = create(RequestTemplateSchema, {
  method: "POST",
  path: "/v3/calendars/${resource}/events/watch?for=${connectionConfig.team}",
  body: '{"id":"${id}","expiration":"${expiration}","params":{"ttl":"${expiration}","to":"${address}"},"list":["a ${token}","${expiration}"]}',
});
const filled = (values: ChannelValues, config: Record<string, string> = { team: "a&b" }) =>
  filledChannelRequest(template, (name) => config[name.replace(/^connectionConfig\./, "")], values);

it("omits a field without a value, at any depth", () => {
  const request = filled({ id: "x", address: "https://a.example/", token: "t", resource: "primary" });
  expect(JSON.parse(request?.body ?? "")).toEqual({ id: "x", params: { to: "https://a.example/" }, list: ["a t"] });
});

it("keeps every value within its text and its segment", () => {
  const odd = '","x":"\\u0000${id}\n';
  const request = filled({ id: odd, address: odd, token: odd, expiration: "1", resource: "a/b?c#d%2e@ö" });
  expect(JSON.parse(request?.body ?? "")).toEqual({
    id: odd,
    expiration: "1",
    params: { ttl: "1", to: odd },
    list: [`a ${odd}`, "1"],
  });
  expect(request?.path).toBe("/v3/calendars/a%2Fb%3Fc%23d%252e%40%C3%B6/events/watch?for=a%26b");
});

it.each(["", ".", ".."])("is no request where a segment would be %j", (resource) => {
  expect(filled({ id: "x", resource })).toBeUndefined();
});

it("is undefined if the connection lacks a value", () => {
  expect(filled({ id: "x", resource: "primary" }, {})).toBeUndefined();
});
