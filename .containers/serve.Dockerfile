# Saved programs behind HTTP: `python -m lab serve`, without notebooks and without a compiler.
#
#   docker build -f .containers/serve.Dockerfile -t gradlab-serve .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/model.gl:/models/model.gl:ro" gradlab-serve /models/model.gl

FROM python:3.11.13-slim-bookworm AS wheel
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY core core
COPY triton_kernels triton_kernels
COPY widgets widgets
COPY lab lab
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11.13-slim-bookworm
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[serve]" \
    && useradd --create-home --uid 1000 lab
USER 1000
WORKDIR /home/lab
EXPOSE 8000
ENTRYPOINT ["python", "-m", "lab", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["--help"]
