import { pino } from "pino";

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

/** A message is a constant sentence; its details are fields. Credentials are never fields. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

interface LogOptions {
  readonly level: LogLevel;
  readonly format: "json" | "pretty";
  readonly write: (line: string) => void;
}

export function createLog({ level, format, write }: LogOptions): Log {
  const logger = pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
    },
    { write: format === "json" ? write : (line: string) => write(prettyLine(line)) },
  );
  const at =
    (name: LogLevel) =>
    (message: string, fields: LogFields = {}) =>
      logger[name](fields, message);
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** Serializes an error with its causes, without properties that a library added: they may hold secrets of a request. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return typeof error;
  const { code } = error as { code?: unknown };
  return {
    type: error.name,
    message: error.message,
    ...(typeof code === "string" ? { code } : {}),
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}

/** Human-readable: `12:00:01 info  listening door=data`. Values are JSON, so that an entry stays on one line. */
function prettyLine(line: string): string {
  const { time, level, msg, err, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const shown = Object.entries(fields).map(([name, value]) => ` ${name}=${plain(value)}`);
  const { stack } = (err ?? {}) as { stack?: string };
  return `${String(time).slice(11, 19)} ${String(level).padEnd(5)} ${String(msg)}${shown.join("")}\n${stack === undefined ? "" : `${stack}\n`}`;
}

const plain = (value: unknown) =>
  typeof value === "string" && /^[\x21-\x7e]+$/.test(value) ? value : JSON.stringify(value);
