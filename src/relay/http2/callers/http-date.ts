let second = 0;
let text = "";

/** Returns the time as a `Date` header says it. */
export function httpDate(): string {
  const now = Math.floor(Date.now() / 1_000);
  if (now !== second) {
    second = now;
    text = new Date(now * 1_000).toUTCString();
  }
  return text;
}
