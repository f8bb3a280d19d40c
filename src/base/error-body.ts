import type { Fault } from "./fault.ts";

/** The one envelope of errors on every face that speaks JSON. */
export const errorBody = ({ code, message, mistakes }: Fault): string =>
  JSON.stringify({
    error: {
      code,
      message,
      ...(mistakes.length === 0
        ? {}
        : { errors: mistakes.map((mistake) => ({ code, message: mistake.message, path: mistake.path })) }),
    },
  });
