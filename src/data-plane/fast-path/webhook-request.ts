import type { IncomingHttpHeaders } from "node:http";
import type { Fault } from "../../base/fault.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import type { ReceivedNotification } from "../../core/notifications/notification.ts";
import type { ClientConnection } from "../../relay/client/client-connection.ts";
import type { TakenRequest } from "../../relay/client/client-connection-owner.ts";
import type { AnswerRules } from "../../relay/client/client-side.ts";
import type { Exchange } from "../../relay/exchange.ts";
import type { RequestHead } from "../../relay/http1/request-head.ts";
import type { DoorAnswers } from "../server/answers.ts";
import { bodyNotInTime, bodyWithinMs, headerPairs } from "../server/body.ts";
import type { BodyRoom } from "../server/body-room.ts";
import { type QueryReader, readQuery } from "../server/query.ts";
import type { DoorCount } from "../server/request-count.ts";
import { type Match, patternOf, type RouteRequest } from "../server/routes.ts";

/** Dependencies shared by all webhook requests. */
export interface WebhookCallShared {
  readonly count: DoorCount;
  readonly textOf: DoorAnswers["textOf"];
  readonly textOfAnswer: DoorAnswers["textOfAnswer"];
  readonly room: BodyRoom;
}

interface WebhookCallOptions {
  readonly connection: ClientConnection;
  readonly match: Match;
  readonly head: RequestHead;
  readonly headers: IncomingHttpHeaders;
}

/**
 * A webhook request on the fast path. Takes the place of an exchange with a provider, and collects the body. A class,
 * because there is one for each request.
 */
export class WebhookCall implements AnswerRules, TakenRequest, Exchange {
  readonly mayHaveArrived = true;
  readonly #shared: WebhookCallShared;
  readonly #options: WebhookCallOptions;
  readonly #since = performance.now();
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #slow: NodeJS.Timeout | undefined;
  #isRefused = false;
  #isOver = false;

  constructor(shared: WebhookCallShared, options: WebhookCallOptions) {
    this.#shared = shared;
    this.#options = options;
    shared.count.begin();
  }

  begin(): void {
    const { connection, head } = this.#options;
    const { contentLength } = head.fields;
    connection.begin(this, this);
    if (contentLength === 0) {
      this.end();
      return;
    }
    connection.sendBody(this);
    // Most bodies come in one piece with their head and need no timeout.
    if (this.#bytes < contentLength && !this.#isRefused) {
      this.#slow = setTimeout(() => this.#refuse(bodyNotInTime()), bodyWithinMs);
    }
  }

  write(bytes: Buffer): boolean {
    if (this.#isRefused || this.#isOver) return true;
    try {
      this.#shared.room.take(bytes.length);
      this.#bytes += bytes.length;
      this.#chunks.push(bytes);
    } catch (error) {
      this.#isRefused = true;
      // Deferred: the client connection is still inside its read.
      process.nextTick(() => this.#refuse(faultOfStore(error)));
    }
    return true;
  }

  /** The body is complete. */
  end(): void {
    if (this.#isRefused || this.#isOver) return;
    clearTimeout(this.#slow);
    const [first] = this.#chunks;
    void this.#answer(this.#chunks.length < 2 ? (first ?? noBytes) : Buffer.concat(this.#chunks, this.#bytes));
  }

  async #answer(body: Buffer): Promise<void> {
    try {
      const answer = await this.#options.match.route.answer(new WebhookRequest(this.#options, body));
      if (!this.#isOver) this.#options.connection.answer(this.#shared.textOfAnswer(answer));
    } catch (error) {
      if (!this.#isOver) this.#options.connection.answer(this.#shared.textOf(faultOfStore(error)));
    } finally {
      this.#giveRoom();
    }
  }

  #refuse(fault: Fault): void {
    this.#isRefused = true;
    this.#giveRoom();
    if (!this.#isOver) this.#options.connection.answer(this.#shared.textOf(fault));
  }

  #giveRoom(): void {
    this.#shared.room.give(this.#bytes);
    this.#bytes = 0;
  }

  over(status: number): void {
    const { count } = this.#shared;
    this.#isOver = true;
    clearTimeout(this.#slow);
    count.end({ route: patternOf(this.#options.match), status, since: this.#since });
  }

  /** If the caller leaves before the body is complete, drop the body. A complete body is still processed. */
  leave(): void {
    if (this.#bytes < this.#options.head.fields.contentLength) this.#giveRoom();
  }

  // Unused: no provider answers, and the responses made here are small.
  fieldsFor(): readonly string[] {
    return [];
  }
  linesFor(): string {
    return "";
  }
  answerFailure(): void {}
  passedOn(): void {}
  takeMore(): void {}
  cut(): void {}
  resume(): void {}
  abort(): void {}
}

/** The request as the route sees it. */
class WebhookRequest implements RouteRequest {
  readonly caller = undefined;
  readonly body = nothing;
  readonly fields = noReport;
  readonly method: string;
  readonly params: RouteRequest["params"];
  readonly headers: IncomingHttpHeaders;
  readonly target: string;
  readonly rawQuery: string;
  readonly received: ReceivedNotification;

  constructor({ match, head, headers }: WebhookCallOptions, body: Buffer) {
    this.method = head.method;
    this.params = match.params;
    this.headers = headers;
    this.target = head.url;
    this.rawQuery = queryOf(head.url);
    this.received = { headers: headerPairs(head.fields.rawHeaders), query: this.rawQuery, body };
  }

  /** A new reader each time: most routes only read `received`. */
  get query(): QueryReader {
    return readQuery(this.rawQuery);
  }
}

const nothing = {};
const noReport = { refusesMisspelled: false, ignore() {} };
const noBytes = Buffer.alloc(0);

const queryOf = (target: string): string => {
  const at = target.indexOf("?");
  return at === -1 ? "" : target.slice(at + 1);
};
