// Makes the gRPC calls that it reads, one a line, and writes what came of each: see
// ../python/client.py.
import * as grpc from '@grpc/grpc-js';
import { createInterface } from 'node:readline';

const client = new grpc.Client(process.argv[2], grpc.credentials.createInsecure());
const same = (octets) => octets;

function make([method, streams, gzip, seconds, pairs, hex]) {
  const metadata = new grpc.Metadata();
  for (const pair of pairs.split(',').filter(Boolean)) metadata.set(...pair.split(/=(.*)/s));
  if (gzip === 'true') metadata.set('grpc-internal-encoding-request', 'gzip');
  const options = seconds === '0' ? {} : { deadline: Date.now() + seconds * 1000 };
  const message = Buffer.from(hex, 'hex');
  return new Promise((resolve) => {
    const failed = (error) => resolve([error.code, '', error.details]);
    const answered = (answer) => resolve([0, answer.toString('hex'), '']);
    if (streams === 'true') {
      const stream = client.makeBidiStreamRequest(method, same, same, metadata, options);
      stream.on('error', failed);
      stream.on('data', (answer) => {
        answered(answer);
        stream.cancel();
      });
      stream.write(message);
      stream.end();
      return;
    }
    client.makeUnaryRequest(method, same, same, message, metadata, options, (error, answer) =>
      error ? failed(error) : answered(answer),
    );
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log((await make(line.split('\t'))).join('\t'));
}
client.close();
