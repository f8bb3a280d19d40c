import { fileURLToPath } from "node:url";

/**
 * The program that tests start as a process of its own. A run of all tests builds it first and names it in
 * LATCHKEY_TEST_PROGRAM, because the source takes three times as long to start; a run of a few files starts the source.
 */
export const programFile =
  process.env["LATCHKEY_TEST_PROGRAM"] ?? fileURLToPath(new URL("../../../src/main.ts", import.meta.url));
