// Creates an account, and reads those of two pages.
import jsforce from "jsforce";

const { ADDRESS, KEY } = process.env;
const salesforce = new jsforce.Connection({ instanceUrl: ADDRESS, accessToken: KEY, version: "67.0" });

const made = await salesforce.sobject("Account").create({ Name: "Tea & ü" });
const first = await salesforce.query("SELECT Id FROM Account");
const second = await salesforce.queryMore(first.nextRecordsUrl);
const refusal = await salesforce
  .sobject("Account")
  .retrieve("missing")
  .catch((error) => error);

console.log(
  JSON.stringify({
    written: made.id,
    read: [...first.records, ...second.records].map(({ Id }) => Id),
    refused: [refusal.name, refusal.errorCode],
  }),
);
