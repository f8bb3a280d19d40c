import { Buffer } from "./buffer.ts";
import { structuredClone } from "./clone.ts";
import { type Level, log } from "./log.ts";
import { crypto } from "./random.ts";
import { atob, btoa, TextDecoder, TextEncoder } from "./text.ts";
import { clear, setInterval, setTimeout } from "./timers.ts";
import { URL, URLSearchParams } from "./url.ts";

const logFunction =
  (level: Level) =>
  (...said: unknown[]) =>
    log(level, said);

const console = {
  log: logFunction("info"),
  info: logFunction("info"),
  debug: logFunction("debug"),
  trace: logFunction("debug"),
  dir: logFunction("info"),
  warn: logFunction("warn"),
  error: logFunction("error"),
};

const throwing = (sentence: string) => () => {
  throw new Error(sentence);
};

/** The globals that people expect besides the language. */
const globals: Readonly<Record<string, unknown>> = {
  console,
  crypto,
  URL,
  URLSearchParams,
  TextEncoder,
  TextDecoder,
  Buffer,
  atob,
  btoa,
  structuredClone,
  setTimeout,
  setInterval,
  clearTimeout: clear,
  clearInterval: clear,
  fetch: throwing("scripts have no network access: use nango.get, nango.post and so on"),
  require: throwing("scripts cannot use require: import modules at the top of the file"),
};

export function addGlobals(): void {
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
  withoutLocales();
  // No memory is shared here: waiting on shared memory would never end.
  for (const name of ["SharedArrayBuffer", "Atomics"]) Reflect.deleteProperty(globalThis, name);
}

/**
 * The engine implements locale-dependent functions for only one locale: passing a locale throws instead of returning
 * wrong results.
 */
function withoutLocales(): void {
  const takesNone: readonly (readonly [object, readonly string[], number])[] = [
    [Date.prototype, ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"], 0],
    [Number.prototype, ["toLocaleString"], 0],
    [BigInt.prototype, ["toLocaleString"], 0],
    [String.prototype, ["localeCompare"], 1],
  ];
  for (const [place, names, own] of takesNone) {
    for (const name of names) {
      const plain = Reflect.get(place, name) as (...given: unknown[]) => unknown;
      const value = function (this: unknown, ...given: unknown[]) {
        if (given.slice(own).every((one) => one === undefined)) return plain.apply(this, given);
        throw new Error(`${name} does not support locales or time zones in scripts: Intl is not available`);
      };
      Object.defineProperty(place, name, { value, writable: true, configurable: true, enumerable: false });
    }
  }
}

/** Missing globals, and what to use instead. */
const replacements: readonly (readonly [RegExp, string])[] = [
  [/\bprocess is not defined/, "scripts have no process: use nango.getEnvironmentVariables() to read variables"],
  [
    /\b(?:XMLHttpRequest|WebSocket|EventSource|Headers|Request|Response|FormData|Blob) is not defined/,
    "scripts have no network access: use nango.get, nango.post and so on",
  ],
  [/\b(?:__dirname|__filename|module|exports) is not defined/, "scripts have no file access"],
  [/\b(?:Worker|SharedArrayBuffer|Atomics|WebAssembly) is not defined/, "scripts have no threads or shared memory"],
  [/\bIntl is not defined/, "scripts have no locale or time zone data"],
];

export const hintFor = (message: string): string | undefined => replacements.find(([form]) => form.test(message))?.[1];
