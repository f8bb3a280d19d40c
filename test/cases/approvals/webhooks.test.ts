import { expect, it } from "vitest";
import { signatureFields } from "../../../src/core/notifications/webhook-signature.ts";
import { ApprovalService } from "../../../src/gen/latchkey/v1/approval_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { startHolding } from "../../support/approvals/holding.ts";
import { startApplication } from "../../support/peers/application.ts";
import { apiKey } from "../../support/peers/provider.ts";
import { secretKey } from "../../support/sidecar/harness.ts";

it("asks the application by a signed event, and takes its signed answer", async () => {
  const application = await startApplication();
  const running = await startHolding({ env: { LATCHKEY_FORWARD_URL: application.url } });
  const body = { amount: 5, copied: apiKey };
  // A program that has learned the credential, and sends it where others look.
  const headers = { "x-copied": apiKey, "x-own": secretKey };
  const ask = (path = "/pay") => running.ask("POST", `${path}?copied=${apiKey}`, { body, headers });
  const id = (await ask()).headers.get("latchkey-approval") ?? "";
  const seen = () => application.seen.filter(({ body: text }) => text.includes(id));
  await expect.poll(() => seen().length).toBeGreaterThan(0);
  const [event] = seen();
  const told = JSON.parse(event?.body ?? "{}");
  expect(told).toMatchObject({
    from: "latchkey",
    type: "approval",
    operation: "requested",
    connectionId: "ada",
    approval: { id, method: "POST", policies: [{ id: "changes" }], requester: { key: "secret-key" } },
  });
  const { secrets } = await running.client(EnvironmentService).listSigningSecrets({ environment: "dev", reveal: true });
  const signing = secrets.map(({ secret }) => secret);
  const signed = (event?.headers["webhook-signature"] ?? "") as string;
  const fields = signatureFields({
    id: String(event?.headers["webhook-id"]),
    timestampMs: Number(event?.headers["webhook-timestamp"]) * 1_000,
    body: Buffer.from(event?.body ?? ""),
    secrets: signing,
  });
  expect(fields["webhook-signature"]).toBe(signed);

  const send = async (answer: object | string, { name = id, at = Date.now(), to = id, secret = signing } = {}) => {
    const text = typeof answer === "string" ? answer : JSON.stringify(answer);
    const proof = signatureFields({ id: name, timestampMs: at, body: Buffer.from(text), secrets: secret });
    const response = await fetch(`${running.data}/approval-answers/dev/${to}`, {
      method: "POST",
      body: text,
      headers: { ...proof, "content-type": "application/json" },
    });
    await response.text();
    return [response.status, response.headers.get("latchkey-error")];
  };
  const yes = { decision: "approve", digest: told.approval.digest, decided_by: "ada@example.com" };
  const unproven = [401, "unproven_webhook"];
  expect(await send(yes, { secret: [`whsec_${Buffer.alloc(32).toString("base64")}`] })).toEqual(unproven);
  expect(await send(yes, { name: "another" })).toEqual(unproven);
  expect(await send(yes, { at: Date.now() - 400_000 })).toEqual(unproven);
  // A delivery that is sent back is no answer.
  const { body: delivered = "" } = event ?? {};
  const back = { name: String(event?.headers["webhook-id"]) };
  expect(await send(delivered, back)).toEqual(unproven);
  expect(await send(delivered)).toEqual([400, "invalid_body"]);
  expect(await send({ ...yes, digest: undefined })).toEqual([400, "invalid_body"]);
  expect(await send({ ...yes, digest: "0".repeat(64) })).toEqual([409, "approval_mismatch"]);
  expect(await send({ ...yes, decided_by: "secret-key" })).toEqual([403, "self_approval"]);
  expect((await ask()).status).toBe(202);
  expect(await send(yes)).toEqual([200, null]);
  expect(await send(yes)).toEqual([200, null]);
  expect((await ask()).status).toBe(200);
  expect(running.sent()).toHaveLength(1);
  const client = running.client(ApprovalService, running.decider);
  const { approval } = await client.getApproval({ id });
  expect(approval).toMatchObject({ decidedBy: "webhook:ada@example.com" });

  // No answer, event or log line has a credential, although the caller sent it in four places.
  await expect.poll(() => seen().length).toBeGreaterThan(1);
  const shown = await running.rest("GET", `/approvals/${id}`, { key: running.decider });
  const listed = await running.rest("GET", "/approvals", { key: running.decider });
  const { approvals } = await client.listApprovals({});
  const text = (value: unknown) =>
    JSON.stringify(value, (_, one) =>
      typeof one === "bigint" ? String(one) : one instanceof Uint8Array ? Buffer.from(one).toString("latin1") : one,
    );
  const everything = [shown.body, listed.body, approval, approvals, application.seen, running.logged].map(text).join();
  expect(everything).toContain(id);
  expect(everything).not.toContain(apiKey);
  expect(everything).not.toContain(secretKey);
});
