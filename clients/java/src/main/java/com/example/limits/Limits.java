package com.example.limits;

import io.envoyproxy.envoy.extensions.common.ratelimit.v3.RateLimitDescriptor;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitRequest;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitResponse;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus;
import io.envoyproxy.envoy.service.ratelimit.v3.RateLimitServiceGrpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Asks Headgate over gRPC whether a request may pass, by the stubs of Envoy's
 * RateLimitService. One is enough for a process, and safe for use from many threads.
 */
public final class Limits implements AutoCloseable {
  /**
   * What was decided.
   *
   * @param allowed whether the request may pass
   * @param remaining hits that would pass now; empty where nothing limits, or nobody counted
   * @param reset until the limit is as if unused; zero where that is not known
   * @param degraded why Headgate did not decide; OK when it did
   */
  public record Decision(boolean allowed, OptionalLong remaining, Duration reset, Status.Code degraded) {}

  /** What the server says of a check that is wrong, or that the caller has no right to. */
  private static final Set<Status.Code> REFUSALS =
      EnumSet.of(Status.Code.INVALID_ARGUMENT, Status.Code.PERMISSION_DENIED, Status.Code.ALREADY_EXISTS);

  /** The longest pause before a server that is away is tried again; that of gRPC itself grows to two minutes. */
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(4);

  /** After so long without a sign of life a server is asked for one, and so long it may take. */
  private static final Duration PING_AFTER = Duration.ofSeconds(20);
  private static final Duration PING_TIMEOUT = Duration.ofSeconds(5);

  private final ManagedChannel channel;
  private final RateLimitServiceGrpc.RateLimitServiceBlockingStub stub;
  private final Duration timeout;
  private final boolean passes;
  private final AtomicLong triedAgain = new AtomicLong(System.nanoTime());

  /**
   * @param target such as headgate:8081, in plain text; with TLS leave usePlaintext out
   * @param token of the server's callers; empty for none
   * @param timeout of a call; 100 ms leave time for connecting, which the first call does
   * @param passes whether requests pass when Headgate does not answer in time
   * @throws IllegalArgumentException if the token cannot be sent
   */
  public Limits(String target, String token, Duration timeout, boolean passes) {
    // gRPC would send no such token, and write it to its log.
    if (!token.matches("[!-~]*")) {
      throw new IllegalArgumentException("the token has a space, a line break or another sign that cannot be sent");
    }
    this.channel =
        ManagedChannelBuilder.forTarget(target)
            .usePlaintext()
            .keepAliveTime(PING_AFTER.toSeconds(), TimeUnit.SECONDS)
            .keepAliveTimeout(PING_TIMEOUT.toSeconds(), TimeUnit.SECONDS)
            .build();
    this.timeout = timeout;
    this.passes = passes;
    Metadata shown = new Metadata();
    if (!token.isEmpty()) {
      shown.put(Metadata.Key.of("x-headgate-token", Metadata.ASCII_STRING_MARSHALLER), token);
    }
    this.stub =
        RateLimitServiceGrpc.newBlockingStub(channel).withInterceptors(MetadataUtils.newAttachHeadersInterceptor(shown));
  }

  /**
   * Decides about one descriptor.
   *
   * @param entries in the order of the map: a LinkedHashMap where there are several
   * @param hits what the request costs; from 1 on
   * @throws IllegalArgumentException if the server refuses the check, or hits is below 1; nothing was decided then
   */
  public Decision check(String domain, Map<String, String> entries, int hits) {
    if (hits < 1) { // the message would have 0 for 1, and what is below for four thousand million
      throw new IllegalArgumentException("hits " + hits + "; hint: from 1 on");
    }
    RateLimitDescriptor.Builder descriptor = RateLimitDescriptor.newBuilder();
    entries.forEach((key, value) -> descriptor.addEntriesBuilder().setKey(key).setValue(value));
    RateLimitRequest request =
        RateLimitRequest.newBuilder().setDomain(domain).addDescriptors(descriptor).setHitsAddend(hits).build();
    try {
      return read(stub.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS).shouldRateLimit(request));
    } catch (StatusRuntimeException e) {
      Status status = e.getStatus();
      if (REFUSALS.contains(status.getCode())) {
        throw new IllegalArgumentException(status.getDescription(), e);
      }
      if (status.getCode() == Status.Code.UNAVAILABLE) {
        tryAgainSoon();
      }
      return new Decision(passes, OptionalLong.empty(), Duration.ZERO, status.getCode());
    }
  }

  /** Has the channel connect again now, unless it was asked to of late. */
  private void tryAgainSoon() {
    long now = System.nanoTime();
    long last = triedAgain.get();
    if (now - last >= LONGEST_PAUSE.toNanos() && triedAgain.compareAndSet(last, now)) {
      channel.resetConnectBackoff();
    }
  }

  private static Decision read(RateLimitResponse response) {
    boolean allowed = response.getOverallCode() != RateLimitResponse.Code.OVER_LIMIT;
    if (response.getStatusesCount() == 0 || !response.getStatuses(0).hasCurrentLimit()) {
      return new Decision(allowed, OptionalLong.empty(), Duration.ZERO, Status.Code.OK);
    }
    DescriptorStatus status = response.getStatuses(0);
    Duration reset =
        Duration.ofSeconds(status.getDurationUntilReset().getSeconds(), status.getDurationUntilReset().getNanos());
    long remaining = Integer.toUnsignedLong(status.getLimitRemaining());
    return new Decision(allowed, OptionalLong.of(remaining), reset, Status.Code.OK);
  }

  @Override
  public void close() {
    channel.shutdownNow();
  }

  /** Asks six times for one user: TARGET USER TIMEOUT_MS, and perhaps DOMAIN and HITS. */
  public static void main(String[] args) {
    Duration timeout = Duration.ofMillis(Long.parseLong(args[2]));
    try (Limits limits = new Limits(args[0], System.getenv().getOrDefault("HEADGATE_TOKEN", ""), timeout, true)) {
      for (int i = 0; i < 6; i++) {
        int hits = args.length > 4 ? Integer.parseInt(args[4]) : 1;
        Decision d = limits.check(args.length > 3 ? args[3] : "shop", Map.of("user", args[1]), hits);
        String left = d.remaining().isPresent() ? String.valueOf(d.remaining().getAsLong()) : "-";
        System.out.printf("allowed=%b remaining=%s resets=%b degraded=%s%n", d.allowed(), left, !d.reset().isZero(), d.degraded());
      }
    }
  }
}
