import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.netty.NettyChannelBuilder;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Makes the gRPC calls that it reads, one a line, and writes what came of each: see
 * ../python/client.py.
 */
public final class Client {
  private static final MethodDescriptor.Marshaller<byte[]> SAME =
      new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(byte[] octets) {
          return new ByteArrayInputStream(octets);
        }

        @Override
        public byte[] parse(InputStream stream) {
          try {
            return stream.readAllBytes();
          } catch (IOException e) {
            throw new IllegalStateException(e);
          }
        }
      };

  private static String make(ManagedChannel channel, String[] call) throws Exception {
    boolean streams = call[1].equals("true");
    MethodDescriptor<byte[], byte[]> method =
        MethodDescriptor.<byte[], byte[]>newBuilder(SAME, SAME)
            .setFullMethodName(call[0].substring(1))
            .setType(streams ? MethodDescriptor.MethodType.BIDI_STREAMING : MethodDescriptor.MethodType.UNARY)
            .build();
    CallOptions options = CallOptions.DEFAULT;
    if (call[2].equals("true")) {
      options = options.withCompression("gzip");
    }
    if (!call[3].equals("0")) {
      options = options.withDeadlineAfter(Long.parseLong(call[3]), TimeUnit.SECONDS);
    }
    Metadata metadata = new Metadata();
    for (String pair : call[4].split(",")) {
      int at = pair.indexOf('=');
      if (at > 0) {
        metadata.put(Metadata.Key.of(pair.substring(0, at), Metadata.ASCII_STRING_MARSHALLER), pair.substring(at + 1));
      }
    }
    CompletableFuture<String> outcome = new CompletableFuture<>();
    ClientCall<byte[], byte[]> made = channel.newCall(method, options);
    made.start(
        new ClientCall.Listener<>() {
          private byte[] answer;

          @Override
          public void onMessage(byte[] message) {
            answer = message;
            if (streams) {
              outcome.complete("0\t" + HexFormat.of().formatHex(answer) + "\t");
            }
          }

          @Override
          public void onClose(Status status, Metadata trailers) {
            String text = status.getDescription() == null ? "" : status.getDescription();
            outcome.complete(
                status.getCode().value() + "\t" + (status.isOk() ? HexFormat.of().formatHex(answer) : "") + "\t" + text.replace('\n', ' '));
          }
        },
        metadata);
    made.request(2);
    made.setMessageCompression(true);
    made.sendMessage(HexFormat.of().parseHex(call[5]));
    made.halfClose();
    String heard = outcome.get();
    if (streams) {
      made.cancel("enough", null);
    }
    return heard;
  }

  public static void main(String[] args) throws Exception {
    ManagedChannel channel = NettyChannelBuilder.forTarget(args[0]).usePlaintext().build();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(make(channel, line.split("\t", 6)));
    }
    channel.shutdownNow();
  }
}
