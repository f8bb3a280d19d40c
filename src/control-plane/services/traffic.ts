import { hostname } from "node:os";
import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { SeriesPoint } from "../../broker/traffic/day-series.ts";
import type { RequestConditions } from "../../broker/traffic/recent-requests.ts";
import type { SendToProvider } from "../../broker/traffic/send-to-provider.ts";
import {
  type RequestFilter,
  RequestFilterSchema,
  SeriesStep,
  type TrafficSeries,
  TrafficSeriesSchema,
  TrafficService,
} from "../../gen/latchkey/v1/traffic_pb.ts";
import { callerOf, connectionRefOf, pageOf } from "../server/context.ts";
import { problemOf } from "../server/errors.ts";

export { TrafficService };

const defaultSeries = 10;

function minutesOf(step: SeriesStep): number {
  if (step === SeriesStep.HOUR) return 60;
  return step === SeriesStep.FIVE_MINUTES ? 5 : 1;
}

export const trafficService = (
  { traffic, environments, audit, connections }: Broker,
  sendToProvider: SendToProvider,
): ServiceImpl<typeof TrafficService> => {
  const { counts, recent } = traffic;
  const replica = hostname();

  return {
    async getSeries({ environment: requested, integration, since, step, maxSeries }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const stepMinutes = minutesOf(step);
      const { startMs, countedSinceMs, total, series } = counts.read({
        environment,
        integration,
        sinceMs: since === undefined ? 0 : timestampMs(since),
        step: stepMinutes,
        maxSeries: maxSeries === 0 ? defaultSeries : maxSeries,
      });
      return {
        start: timestampFromMs(startMs),
        step: durationFromMs(stepMinutes * 60_000),
        replica,
        countedSince: timestampFromMs(countedSinceMs),
        ...(total !== undefined && { total: lineOf("", total) }),
        series: series.map((one) => lineOf(one.integration, one.points)),
      };
    },
    async listRequests({ environment: requested, filter, ...request }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const { items, next } = recent.list({ environment, filter: conditionsOf(filter) }, pageOf(request));
      return { requests: [...items], nextPageToken: next, replica, kept: recent.kept };
    },
    async *watchRequests({ environment: requested, filter, recent: first, maxPerSecond }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const query = { environment, filter: conditionsOf(filter) };
      const options = { recent: first, maxPerSecond, signal: context.signal };
      for await (const { requests, missed } of recent.watch(query, options)) {
        yield { requests: [...requests], missed: BigInt(missed) };
      }
    },
    async sendRequest({ connection, method, path, headers, body }, context) {
      const caller = callerOf(context);
      const ref = await connectionRefOf(environments, connection, context);
      // A connection that does not exist fails the call, as for other methods.
      await connections.get(ref);
      await audit.note({
        actor: caller.keyId,
        action: "request.send",
        environment: ref.environment,
        targets: [`${ref.integration}/${ref.id}`],
      });
      const answer = await sendToProvider({
        caller,
        ref,
        method: method === "" ? "GET" : method,
        path,
        headers: headers.flatMap(({ name, value }) => [name, Buffer.from(value).toString("latin1")]),
        body,
        signal: context.signal,
      });
      const { status, isTruncated, fault, totalMs, addedMs, attempts } = answer;
      return {
        status,
        headers: headersOf(answer.headers),
        body: answer.body,
        truncated: isTruncated,
        ...(fault !== undefined && { problem: problemOf(fault) }),
        totalMs,
        addedMs,
        attempts,
      };
    },
  };
};

function conditionsOf(filter: RequestFilter | undefined): RequestConditions {
  const conditions = filter ?? create(RequestFilterSchema);
  if (conditions.connectionId !== "" && conditions.integration === "") {
    const message = "must be given with connection_id, which names a connection of one integration";
    throw new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: ["integration"], message }] });
  }
  return conditions;
}

/** `integration` is undefined for those that are counted together. */
function lineOf(integration: string | undefined, points: readonly SeriesPoint[]): TrafficSeries {
  return create(TrafficSeriesSchema, {
    integration: integration ?? "",
    other: integration === undefined,
    requests: points.map(({ requests }) => requests),
    providerErrors: points.map(({ providerErrors }) => providerErrors),
    ownErrors: points.map(({ ownErrors }) => ownErrors),
    addedP50Ms: points.map(({ addedP50 }) => addedP50),
    addedP99Ms: points.map(({ addedP99 }) => addedP99),
    wholeP50Ms: points.map(({ wholeP50 }) => wholeP50),
    wholeP99Ms: points.map(({ wholeP99 }) => wholeP99),
  });
}

const headersOf = (flat: readonly string[]) =>
  Array.from({ length: flat.length / 2 }, (_, i) => ({
    name: (flat[2 * i] ?? "").toLowerCase(),
    value: Buffer.from(flat[2 * i + 1] ?? "", "latin1"),
  }));
