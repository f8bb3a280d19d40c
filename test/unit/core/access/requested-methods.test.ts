import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { compileLimits } from "../../../../src/core/access/limits.ts";
import { LazyRequestFacts } from "../../../../src/core/policies/request-facts.ts";
import { AccessLimitsSchema } from "../../../../src/gen/latchkey/v1/access_pb.ts";
import { judgedRequest } from "../../../support/policies/judged-request.ts";

const limits = compileLimits(create(AccessLimitsSchema, { methods: ["GET"] }));

it.each([
  ["/", [], "GET"],
  ["/", ["X-HTTP-Method-Override", "DELETE"], "other"],
  ["/", ["X-HTTP-Method", "DELETE"], "other"],
  ["/", ["X-Method-Override", "DELETE"], "other"],
  ["/", ["x-http-METHOD-override", " delete "], "other"],
  ["/", ["X_HTTP_Method_Override", "DELETE"], "other"],
  ["/", ["Accept", "*/*", "X-Method-Override", "get, DELETE"], "other"],
  ["/", ["X-Method-Override", "GET", "X-Method-Override", "PUT"], "other"],
  ["/", ["X-Method-Override", ""], "other"],
  ["/", ["x-http-method-override", "get"], "GET"],
  ["/", ["X-Method-Name", "DELETE"], "GET"],
  ["/?a=1&_method=DELETE", [], "other"],
  ["/?_METHOD=delete", [], "other"],
  ["/?_method=GET&_method=PUT", [], "other"],
  ["/?a=1;_method=DELETE", [], "other"],
  ["/?%5fmethod=PUT", [], "other"],
  ["/?%5F%6d%65%74%68%6F%64=PUT", [], "other"],
  ["/?_method=%50UT", [], "other"],
  ["/?$httpMethod=PUT", [], "other"],
  ["/?%24httpmethod=PUT", [], "other"],
  ["/?X-HTTP-Method-Override=PUT", [], "other"],
  ["/?x%2Dhttp%2Dmethod%2Doverride=PUT", [], "other"],
  ["/?_method=get", [], "GET"],
  ["/?_method=+GET", [], "GET"],
  ["/?method=PUT", [], "GET"],
  ["/_method=PUT", [], "GET"],
] as const)("finds the method for limits and policies alike: %s %j", (path, rawHeaders, expected) => {
  const request = judgedRequest({ method: "GET", path, rawHeaders });
  expect(limits?.refusalOf(request)).toBe(expected === "GET" ? undefined : "method");
  const { method } = new LazyRequestFacts(request);
  expect(typeof method === "string" ? method : "other").toBe(expected);
});
