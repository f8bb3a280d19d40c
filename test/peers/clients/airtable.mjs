// Creates a record, and reads those of two pages.
import Airtable from "airtable";

const { ADDRESS, KEY } = process.env;
const base = new Airtable({ apiKey: KEY, endpointUrl: ADDRESS }).base("app1");

const [made] = await base("Teas").create([{ fields: { Name: "Sencha & ü" } }]);
const records = await base("Teas")
  .select({ pageSize: 1, sort: [{ field: "Name" }] })
  .all();
const refusal = await base("Teas")
  .find("rec404")
  .catch((error) => error);

console.log(
  JSON.stringify({
    written: made.id,
    read: records.map((record) => record.get("Name")),
    refused: [refusal instanceof Airtable.Error, refusal.statusCode, refusal.error],
  }),
);
