import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { eventBody, webhookBody } from "../../../../src/broker/deliveries/envelope.ts";
import { ConnectionRefSchema } from "../../../../src/gen/latchkey/v1/connection_pb.ts";

const common = { from: "calendar", providerConfigKey: "cal", type: "forward", payload: '{ "a":9007199254740993}' };

it("sends keys in their order, and the payload as it came", () => {
  expect(Buffer.from(webhookBody({ ...common, connectionId: 'ada "1"' })).toString()).toBe(
    '{"from":"calendar","providerConfigKey":"cal","type":"forward","payload":{ "a":9007199254740993},"connectionId":"ada \\"1\\""}',
  );
});

it("W10 names no connection where none matched", () => {
  const text = Buffer.from(webhookBody(common)).toString();
  expect(Object.keys(JSON.parse(text))).toEqual(["from", "providerConfigKey", "type", "payload"]);
});

it("puts the fields of all events before those of one type", () => {
  const connection = create(ConnectionRefSchema, { environment: "dev", integration: "cal", id: "ada" });
  const event = { connection, provider: "calendar", fields: { operation: "gap", error: undefined } };
  expect(Buffer.from(eventBody({ ...event, type: "channel" })).toString()).toBe(
    '{"from":"latchkey","type":"channel","connectionId":"ada","providerConfigKey":"cal","provider":"calendar","environment":"dev","operation":"gap"}',
  );
  expect(Buffer.from(eventBody({ ...event, type: "auth", authMode: "OAUTH2" })).toString()).toBe(
    '{"from":"latchkey","type":"auth","connectionId":"ada","authMode":"OAUTH2","providerConfigKey":"cal","provider":"calendar","environment":"dev","operation":"gap"}',
  );
});
