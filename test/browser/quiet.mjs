// Every page of a node that nobody has asked anything.
import { explained, tour } from "./tour.mjs";

await tour("quiet", "dark", "wide", { explained });
await tour("quiet", "light", "small", { explained });
