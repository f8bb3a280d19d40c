import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { Integration_Callback, IntegrationSchema } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { openTestBroker } from "./open-broker.ts";
import { testWorld } from "./world.ts";

it("leaves an integration that was stored before the form was decided at creation at its address", async () => {
  const { broker, store, collections } = await openTestBroker(testWorld());
  const wanted = create(IntegrationSchema, { environment: "dev", key: "old", provider: "github" });
  const { callback } = await broker.integrations.create(wanted, "test");
  expect(callback).toBe(Integration_Callback.BOUND);
  const before = await broker.integrations.get({ environment: "dev", key: "old" });
  const after = { ...before.value, callback: Integration_Callback.UNSPECIFIED };
  await store.commit(collections.integrations.change({ before, after }));
  const addressOf = async () =>
    broker.authorizations.callbackUrl((await broker.integrations.get({ environment: "dev", key: "old" })).value);
  expect(await addressOf()).toMatch(/\/oauth\/callback$/);
  // Neither a file that declares it nor an unrelated change has an effect.
  await broker.integrations.declare(wanted);
  expect(await addressOf()).toMatch(/\/oauth\/callback$/);
});
