import { type DescField, type DescFile, type DescMethod, getOption, hasOption, ScalarType } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { MethodOptions_IdempotencyLevel as Idempotency, StructSchema } from "@bufbuild/protobuf/wkt";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { expect, it } from "vitest";
import { Scope, scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { file_latchkey_v1_credentials } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import { methods, pathOf, services } from "./services.ts";

/** Rules for the proto files, checked on their descriptors. */

it("names a scope for every method", () => {
  const open = methods.filter((method) => !hasOption(method, scope) || getOption(method, scope) === Scope.UNSPECIFIED);
  // A key sees the approvals of its own requests. Any key may ask what it is, read the public certificate, and sign a browser in with what it may do.
  expect(open.map(pathOf)).toEqual([
    "/latchkey.v1.AccessSessionService/GetCurrentAccessSession",
    "/latchkey.v1.ApprovalService/ListApprovals",
    "/latchkey.v1.ApprovalService/GetApproval",
    "/latchkey.v1.ApprovalService/WatchApprovals",
    "/latchkey.v1.AuthorityService/GetAuthority",
    "/latchkey.v1.EnvironmentService/GetCaller",
    "/latchkey.v1.SignInService/CreateSignInLink",
    "/latchkey.v1.SignInService/ListBrowserSessions",
    "/latchkey.v1.SignInService/RevokeBrowserSession",
  ]);
  expect(methods.length).toBeGreaterThan(60);
});

const readsOnly = ({ name }: DescMethod) => /^(Get|List|Count|Watch|Explain|Check|BatchGet)[A-Z]/.test(name);

it("declares exactly the reading methods as free of side effects", () => {
  const wrong = methods.filter((method) => readsOnly(method) !== (method.idempotency === Idempotency.NO_SIDE_EFFECTS));
  expect(wrong.map(pathOf)).toEqual([]);
  // Both lists have entries; deleting, updating and revoking are idempotent.
  const again = methods.filter(({ name }) => /^(Batch)?(Delete|Update|Revoke)[A-Z]/.test(name));
  expect(again.length).toBeGreaterThan(10);
  expect(again.filter(({ idempotency }) => idempotency !== Idempotency.IDEMPOTENT).map(pathOf)).toEqual([]);
});

it("opens no changing method to a reading scope", () => {
  const reading: readonly Scope[] = [Scope.CONNECTIONS_READ, Scope.CREDENTIALS_READ, Scope.INTEGRATIONS_READ];
  const wrong = methods.filter((method) => !readsOnly(method) && reading.includes(getOption(method, scope)));
  expect(wrong.map(pathOf)).toEqual([]);
});

it("asks for pages everywhere in the same way, and bounds each", () => {
  const lists = methods.filter(({ input }) => input.fields.some(({ name }) => name === "page_token"));
  expect(lists.length).toBeGreaterThan(10);
  for (const method of lists) {
    const size = method.input.fields.find(({ name }) => name === "page_size");
    const rules = size === undefined ? undefined : getOption(size, fieldRules).type;
    const most = rules?.case === "int32" && rules.value.lessThan.case === "lte" ? rules.value.lessThan.value : 0;
    expect({ path: pathOf(method), isBounded: most >= 1_000 && most <= 10_000 }).toEqual({
      path: pathOf(method),
      isBounded: true,
    });
    expect(method.output.fields.map(({ name }) => name)).toContain("next_page_token");
  }
});

function filesOf(roots: readonly DescFile[], found = new Set<DescFile>()): ReadonlySet<DescFile> {
  for (const file of roots) {
    if (found.has(file) || !file.proto.package.startsWith("latchkey.")) continue;
    found.add(file);
    filesOf(file.dependencies, found);
  }
  return found;
}

const files = [...filesOf([...services.map(({ file }) => file), file_latchkey_v1_credentials])];
const messages = files.flatMap((file) => [...nestedTypes(file)].filter((one) => one.kind === "message"));

/** Whether a field has text, bytes or free-form data, which may contain a secret. */
const canHoldSecret = ({ scalar, message }: DescField) =>
  scalar === ScalarType.STRING || scalar === ScalarType.BYTES || message?.typeName === StructSchema.typeName;
const isRedacted = ({ proto }: DescField) => proto.options?.debugRedact === true;

/** Names that sound like secrets but are not: a position in a list, a URL, the name of a kind or of a method. */
const harmless =
  /(^|_)page_token$|^token_(url|params|endpoint_auth_method|request_format|id)$|_token_url$|^until_cursor$|^secret_headers$|^signature_method$|^credentials_kind$|^tokens$|^token_(request_method|query|setting)$|^signature_path$|^further_token$|_token_type$|_secret_setting$/;
const soundsSecret = /token|secret|password|passphrase|private_key|api_?key|credential|signature|seal|jwt|assertion/;

it("redacts every field whose name sounds like a secret", () => {
  const fields = messages
    // Names of tokens, or of the places where a provider's requests and responses have theirs.
    .filter(({ name }) => !["TokenAnswer", "TokenRevocation", "ParameterNames", "WatchableResource"].includes(name))
    .filter(({ name }) => !["ExplainRequestRequest", "WantedConnection"].includes(name))
    .flatMap(({ fields: own }) => own)
    .filter((field) => canHoldSecret(field) && soundsSecret.test(field.name) && !harmless.test(field.name));
  const bare = fields.filter((field) => !isRedacted(field));
  expect(bare.map(({ parent, name }) => `${parent.typeName}.${name}`)).toEqual([]);
  expect(fields.filter(isRedacted).length).toBeGreaterThan(20);
});

/** The fields of credentials that may be shown: they identify, but grant no access by themselves. */
const shown = [
  "dead_reason",
  "scopes",
  "client_id",
  "client_certificate",
  "certificate",
  "app_id",
  "installation_id",
  "access_key_id",
  "region",
  "service",
  "role_arn",
  "external_id",
  "issuer",
];

it("redacts all of credentials but identifiers", () => {
  const fields = file_latchkey_v1_credentials.messages.flatMap((message) => message.fields).filter(canHoldSecret);
  const bare = fields.filter((field) => !isRedacted(field)).map(({ name }) => name);
  expect([...new Set(bare)].sort()).toEqual([...shown].sort());
});
