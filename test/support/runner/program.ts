import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The program that tests start as a process of its own. A run of all tests builds it first and names it in
 * LATCHKEY_TEST_PROGRAM, because the source takes three times as long to start; a run of a few files starts the source.
 */
const built = process.env["LATCHKEY_TEST_PROGRAM"];

const source = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

export const programFile = built ?? source("src/main.ts");

/** Programs of tests that are built with it, in its folder. */
export const testPrograms = { replica: "test/faults/replica.ts", writer: "test/faults/writer.ts" } as const;

export const testProgram = (name: keyof typeof testPrograms): string =>
  built === undefined ? source(testPrograms[name]) : join(dirname(built), `${name}.js`);
