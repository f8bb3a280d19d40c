import { type FaultCode, faults } from "./fault.ts";

/** The path of the page that explains the error codes. Each code is an anchor. */
export const faultDocsPath = "/docs/errors";

const urlsBelow = (base: string): ReadonlyMap<FaultCode, string> =>
  new Map(Object.keys(faults).map((code) => [code as FaultCode, `${base}${faultDocsPath}#${code}`]));

/** One base for the process, like its version: errors are also written where no configuration is known. */
let urls = urlsBelow("");

/** Sets the URL below which the page is served; empty: errors name the path alone. */
export function setFaultDocsBase(base: string): void {
  urls = urlsBelow(base);
}

/** Returns the URL of the explanation of an error code. */
export const docUrlOf = (code: FaultCode): string => urls.get(code) ?? faultDocsPath;
