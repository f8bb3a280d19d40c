import { useEffect, useRef } from "preact/hooks";

/** Calls again and again while the page is seen. For what has no stream. */
export function usePoll(run: () => void, everyMs: number): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) latest.current();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
}
