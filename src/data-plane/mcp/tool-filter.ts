import { Fault } from "../../base/fault.ts";
import { GrowingBytes } from "../../base/growing-bytes.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import { changedEvent, EventSplitter } from "../../core/mcp/event-splitter.ts";
import type { RpcMessage } from "../../core/mcp/message-scanner.ts";
import { isJson, withTools } from "../../core/mcp/tool-list.ts";
import { RelayFailure } from "../../relay/failure.ts";
import type { ResponseHead } from "../../relay/http1/response-head.ts";
import type { ResponseReceiver } from "../../relay/response-receiver.ts";

interface ToolFilterOptions {
  readonly mayCall: (tool: string) => boolean;
  readonly request: ListRequest;
}

interface ListRequest {
  /** Undefined for an event stream of the server, which may repeat an answer. */
  readonly message: Pick<RpcMessage, "method"> | undefined;
  refuse(fault: Fault): void;
  abort(): void;
}

/** A larger list of tools is no use to a model. */
const maxBytes = 4 * 1_024 * 1_024;

/** Shows a caller only the tools that it may call. Other answers pass as they come. */
export class ToolFilter implements ResponseReceiver {
  readonly #to: ResponseReceiver;
  readonly #options: ToolFilterOptions;
  #body: FilteredBody = "passing";

  constructor(to: ResponseReceiver, options: ToolFilterOptions) {
    this.#to = to;
    this.#options = options;
  }

  onInformational(head: ResponseHead): void {
    this.#to.onInformational(head);
  }

  onHead(head: ResponseHead, hasMore: boolean): void {
    const { method = "tools/list" } = this.#options.request.message ?? {};
    if (head.framing === "none" || head.status >= 300 || method !== "tools/list") {
      this.#to.onHead(head, hasMore);
      return;
    }
    if (fieldIn(head, "content-encoding") !== "") {
      this.#refuse("the list of tools is compressed, though the request did not accept that");
    } else if (/^text\/event-stream\b/i.test(fieldIn(head, "content-type"))) {
      this.#body = new EventSplitter(maxBytes);
      this.#to.onHead(changedHead(head, "chunked"), false);
    } else this.#body = { head, bytes: new GrowingBytes() };
  }

  onContent(content: Buffer, release: (() => void) | undefined): boolean {
    const body = this.#body;
    if (body === "passing") return this.#to.onContent(content, release);
    const wantsMore =
      body === "refused"
        ? false
        : body instanceof EventSplitter
          ? this.#split(body, content)
          : this.#hold(body, content);
    release?.();
    return wantsMore;
  }

  onEnd(trailers: readonly string[]): void {
    const body = this.#body;
    if (body === "refused") return;
    if (body instanceof EventSplitter) this.#send(this.#filtered(body.end()));
    else if (body !== "passing" && !this.#sendWhole(body)) return;
    this.#to.onEnd(trailers);
  }

  onFailure(failure: RelayFailure): void {
    if (this.#body !== "refused") this.#to.onFailure(failure);
  }

  onDrain(): void {
    this.#to.onDrain();
  }

  #split(splitter: EventSplitter, content: Buffer): boolean {
    const events = splitter.push(content);
    if (events === undefined) {
      this.#body = "refused";
      this.#options.request.abort();
      this.#to.onFailure(new RelayFailure("malformed", `an event must have at most ${maxBytes} bytes`));
      return false;
    }
    return events.length === 0 || this.#send(Buffer.concat(events.map((event) => this.#filtered(event))));
  }

  #filtered(event: Buffer): Buffer {
    return changedEvent(event, (data) => withTools(data, this.#options.mayCall));
  }

  #hold({ bytes }: HeldAnswer, content: Buffer): boolean {
    bytes.add(content);
    if (bytes.bytes.length <= maxBytes) return true;
    this.#refuse(`the list of tools has more than ${maxBytes} bytes`);
    return false;
  }

  /** Returns false if the answer was refused. */
  #sendWhole({ head, bytes }: HeldAnswer): boolean {
    const text = bytes.bytes.toString().replace(/^\ufeff/, "");
    const changed = withTools(text, this.#options.mayCall);
    if (changed === undefined && !isJson(text) && text.includes("tools")) {
      this.#refuse("the list of tools cannot be read");
      return false;
    }
    const content = changed === undefined ? bytes.bytes : Buffer.from(changed);
    this.#to.onHead(changedHead(head, content.length), false);
    this.#send(content);
    return true;
  }

  #send(content: Buffer): boolean {
    return content.length === 0 || this.#to.onContent(content, undefined);
  }

  #refuse(message: string): void {
    this.#body = "refused";
    this.#options.request.refuse(new Fault("provider_malformed", message));
  }
}

interface HeldAnswer {
  readonly head: ResponseHead;
  readonly bytes: GrowingBytes;
}

type FilteredBody = "passing" | "refused" | EventSplitter | HeldAnswer;

const fieldIn = ({ fields }: ResponseHead, name: string): string =>
  fields
    .filter((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === name)
    .filter((value) => !/^identity$/i.test(value.trim()))
    .join(", ");

/** Fields that say something about the bytes that the server has sent. */
const ofBytes = new Set(["content-length", "content-digest", "content-md5", "digest", "etag", "repr-digest"]);

function changedHead(head: ResponseHead, framing: "chunked" | number): ResponseHead {
  const { status, reason, fields, keepsAlive, idleSeconds, isHttp2 } = head;
  const kept = fields.filter((_, i) => !ofBytes.has(lowerCase(fields[i - (i % 2)] ?? "")));
  const length = framing === "chunked" ? [] : ["Content-Length", String(framing)];
  return {
    status,
    reason,
    fields: [...kept, ...length],
    framing,
    keepsAlive,
    idleSeconds,
    ...(isHttp2 !== undefined && { isHttp2 }),
  };
}
