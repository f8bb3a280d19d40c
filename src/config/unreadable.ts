const reasons: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EACCES: "permission denied",
  EISDIR: "it is a folder",
  ENOTDIR: "a part of the path is not a folder",
};

/** `/run/key cannot be read (ENOENT): there is no such file`. */
export function describeUnreadable(path: string, error: unknown): string {
  const { code = "unknown error" } = error as NodeJS.ErrnoException;
  const reason = reasons[code];
  return `${path} cannot be read (${code})${reason === undefined ? "" : `: ${reason}`}`;
}
