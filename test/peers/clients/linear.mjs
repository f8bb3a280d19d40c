// Creates an issue, and reads those of two pages.
import { InvalidInputLinearError, LinearClient } from "@linear/sdk";

const { ADDRESS, KEY } = process.env;
const linear = new LinearClient({ accessToken: KEY, apiUrl: `${ADDRESS}/graphql` });

const made = await linear.createIssue({ teamId: "t1", title: "Tea & ü" });
const issues = await linear.issues({ first: 1 });
await issues.fetchNext();
const refusal = await linear.issue("missing").catch((error) => error);

console.log(
  JSON.stringify({
    written: [made.success, made.issueId],
    read: issues.nodes.map(({ title }) => title),
    refused: [refusal instanceof InvalidInputLinearError, refusal.type, refusal.errors[0].message],
  }),
);
