/** Messages of an answer, one by one, as events or as JSON. */
export interface MessageReader {
  /** The next message; undefined once the answer has ended. Comments are left out. */
  // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of a message.
  next(): Promise<any>;
}

export function readMessages(answer: Response): MessageReader {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return {
    async next() {
      for (;;) {
        const end = text.indexOf("\n\n");
        if (end >= 0) {
          const event = text.slice(0, end);
          text = text.slice(end + 2);
          if (!event.startsWith(":")) return JSON.parse(event.slice(event.indexOf("data: ") + 6));
          continue;
        }
        const { value, done } = (await reader?.read()) ?? { done: true };
        if (done) return text === "" ? undefined : JSON.parse(text);
        text += value;
      }
    },
  };
}
