import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { kindOf } from "../../auth/oauth2/token-failures.ts";
import type { SendSmallRequest, SmallAnswer } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import { valueAt } from "../../providers/dotted-path.ts";
import { filledFor } from "./authorization-server.ts";
import { integrationTexts } from "./integration-texts.ts";
import { readTokenAnswer } from "./token-answer.ts";
import type { ClaimedInstallation } from "./token-endpoint.ts";
import { refused, unusable } from "./token-failure.ts";
import { takenFrom } from "./token-limits.ts";

interface ProofTools {
  readonly send: SendSmallRequest;
  readonly world: World;
}

const maxPages = 10;
const noDeadErrors = { deadGrantErrors: [], deadClientErrors: [] };

/** Returns the item of the end user's own list that has the claimed value; undefined if none has it. */
export async function provenInstallation(
  claimed: ClaimedInstallation,
  tools: ProofTools,
): Promise<JsonObject | undefined> {
  const { proof, value } = claimed;
  const token = await tokenOfUser(claimed, tools);
  let url: string | undefined = filledFor(claimed, proof.listUrl);
  const { origin } = new URL(url);
  for (let pages = 0; url !== undefined && pages < maxPages; pages += 1) {
    const answer = await listAt(url, token, claimed, tools);
    const items = itemsIn(answer, proof.items);
    const found = items.find((item) => textAt(proof.value, item) === value);
    if (found !== undefined) return found;
    url = nextOf(answer.header("link"), url, origin);
  }
  return undefined;
}

async function tokenOfUser(claimed: ClaimedInstallation, { send, world }: ProofTools): Promise<string> {
  const { proof, code, signal } = claimed;
  const { clientId, clientSecret } = integrationTexts(claimed) as Record<string, string>;
  const isBasic = proof.tokenEndpointAuthMethod === "client_secret_basic";
  const pair = Buffer.from(`${encoded(clientId)}:${encoded(clientSecret)}`).toString("base64");
  const client = isBasic ? {} : { client_id: clientId ?? "", client_secret: clientSecret ?? "" };
  const sentAtMs = world.now();
  const answer = await send(
    {
      url: filledFor(claimed, proof.tokenUrl),
      method: "POST",
      headers: {
        accept: "application/json",
        "content-type": "application/x-www-form-urlencoded",
        ...(isBasic ? { authorization: `Basic ${pair}` } : {}),
      },
      body: String(new URLSearchParams({ grant_type: "authorization_code", code, ...client })),
    },
    { signal },
  );
  const reading = readTokenAnswer(
    { status: answer.status, contentType: answer.header("content-type"), body: answer.body },
    { at: undefined, defaultLifetime: undefined, sentAtMs, isBound: false },
  );
  const tokens = takenFrom(reading, {
    parties: claimed,
    answer,
    secrets: [code, clientSecret ?? ""],
    kindOf: (status, error) => kindOf({ status, code: error, grant: "authorization_code", rules: noDeadErrors }),
    nowMs: world.now(),
  });
  return tokens.accessToken;
}

const encoded = (text = "") => new URLSearchParams([["", text]]).toString().slice(1);

async function listAt(
  url: string,
  token: string,
  { signal }: ClaimedInstallation,
  { send, world }: ProofTools,
): Promise<SmallAnswer> {
  const headers = { accept: "application/json", authorization: `Bearer ${token}` };
  const answer = await send({ url, method: "GET", headers }, { signal });
  const { status } = answer;
  if (status >= 200 && status < 300) return answer;
  const kind = kindOf({ status, code: undefined, grant: "installation", rules: noDeadErrors });
  const what = "the list of installations";
  throw refused({ what, answer, kind, code: undefined, secrets: [token], nowMs: world.now() });
}

function itemsIn({ body }: SmallAnswer, path: string): readonly JsonObject[] {
  let answer: JsonValue;
  try {
    answer = JSON.parse(body.toString("utf8")) as JsonValue;
  } catch {
    throw unusable("installations_unreadable", "the list of installations is not JSON");
  }
  const items = path === "" ? answer : valueAt(path, answer);
  return Array.isArray(items) ? items.filter(isObject) : [];
}

function textAt(path: string, item: JsonObject): string | undefined {
  const value = valueAt(path, item);
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}

/** Returns the next page (RFC 8288), which only has the same origin: the token goes nowhere else. */
function nextOf(link: string | undefined, base: string, origin: string): string | undefined {
  const [, target] = /<([^<>]*)>\s*;[^,]*\brel="?next"?/i.exec(link ?? "") ?? [];
  if (target === undefined || !URL.canParse(target, base)) return undefined;
  const next = new URL(target, base);
  return next.origin === origin ? next.href : undefined;
}
