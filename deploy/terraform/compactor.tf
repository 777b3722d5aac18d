# Runs `tenure compact` on Fargate every hour, started by EventBridge Scheduler.
#
# Use this module once for each election and each group, each with its own `name`. The region of the
# provider is the region of the cluster. The bucket may be in another region.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "name" {
  type        = string
  description = "The name of the election or group: each in an account and region needs its own"

  validation {
    # The name of a role has at most 64 characters.
    condition     = can(regex("^[A-Za-z0-9_-]{1,37}$", var.name))
    error_message = "The name must be 1 to 37 letters, digits, underscores and hyphens."
  }
}

variable "bucket" {
  type        = string
  description = "The bucket of the election or group"
}

variable "prefix" {
  type        = string
  description = "The prefix of the election or group in it, without a slash at its end"
}

variable "group" {
  type        = bool
  description = "Whether a group of partitions lives there, in place of an election"
  default     = false
}

variable "region" {
  type        = string
  description = "The region of the bucket; the log is in the cluster's"
}

variable "account" {
  type        = string
  description = "The account that owns the bucket: requests to another's are refused"
}

variable "image" {
  type        = string
  description = "The image of deploy/container, with its tag or digest"
}

variable "repository_arn" {
  type        = string
  description = "The ARN of the repository in ECR that the image is in"
}

variable "cluster_arn" {
  type        = string
  description = "The ECS cluster to run in"
}

variable "subnets" {
  type        = list(string)
  description = "Subnets that reach S3, ECR and CloudWatch Logs: by VPC endpoints or a NAT gateway"
}

variable "security_groups" {
  type        = list(string)
  description = "Security groups that let HTTPS out; nothing has to come in"
}

locals {
  # arn:PARTITION:ecs:REGION:ACCOUNT:cluster/NAME
  cluster   = split(":", var.cluster_arn)
  partition = local.cluster[1]
  owner     = local.cluster[4]
  full_name = "tenure-compactor-${var.name}"
  role      = var.group ? "group-compactor" : "compactor"
  command   = concat(local.compact, var.group ? ["--group"] : [])
  compact   = ["compact", "--store", local.store, "--json"]
  policy = replace(replace(replace(file("${path.module}/../iam/${local.role}.json"),
  "arn:aws:", "arn:${local.partition}:"), "BUCKET", var.bucket), "PREFIX", var.prefix)
  store = "s3://${var.bucket}/${var.prefix}?expected-bucket-owner=${var.account}"
}

data "aws_iam_policy_document" "assume_by_tasks" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.owner]
    }
  }
}

# The role of the task. The task may list, read and delete objects, and may not put objects.
resource "aws_iam_role" "compactor" {
  name               = local.full_name
  assume_role_policy = data.aws_iam_policy_document.assume_by_tasks.json
}

resource "aws_iam_role_policy" "compactor" {
  role   = aws_iam_role.compactor.id
  policy = local.policy
}

# The role with which Fargate fetches the image and writes the log.
resource "aws_iam_role" "execution" {
  name               = "${local.full_name}-execution"
  assume_role_policy = data.aws_iam_policy_document.assume_by_tasks.json
}

data "aws_iam_policy_document" "execution" {
  statement {
    # IAM cannot limit this action to a resource.
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"]
  }
  statement {
    actions = [
      "ecr:BatchCheckLayerAvailability",
      "ecr:BatchGetImage",
      "ecr:GetDownloadUrlForLayer",
    ]
    resources = [var.repository_arn]
  }
  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.compactor.arn}:*"]
  }
}

resource "aws_iam_role_policy" "execution" {
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.execution.json
}

resource "aws_cloudwatch_log_group" "compactor" {
  name              = "/tenure/compactor/${var.name}"
  retention_in_days = 14
}

resource "aws_ecs_task_definition" "compactor" {
  family                   = local.full_name
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = 256
  memory                   = 512
  task_role_arn            = aws_iam_role.compactor.arn
  execution_role_arn       = aws_iam_role.execution.arn

  container_definitions = jsonencode([{
    name                   = "compact"
    image                  = var.image
    command                = local.command
    user                   = "65532"
    readonlyRootFilesystem = true
    environment            = [{ name = "AWS_REGION", value = var.region }]
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.compactor.name
        awslogs-region        = split(":", aws_cloudwatch_log_group.compactor.arn)[3]
        awslogs-stream-prefix = "compact"
      }
    }
  }])
}

data "aws_iam_policy_document" "assume_by_scheduler" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["scheduler.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.owner]
    }
  }
}

resource "aws_iam_role" "scheduler" {
  name               = "${local.full_name}-scheduler"
  assume_role_policy = data.aws_iam_policy_document.assume_by_scheduler.json
}

data "aws_iam_policy_document" "start_the_task" {
  statement {
    actions   = ["ecs:RunTask"]
    resources = ["${aws_ecs_task_definition.compactor.arn_without_revision}:*"]
    condition {
      test     = "ArnEquals"
      variable = "ecs:cluster"
      values   = [var.cluster_arn]
    }
  }
  statement {
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.compactor.arn, aws_iam_role.execution.arn]
    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ecs-tasks.amazonaws.com"]
    }
  }
}

resource "aws_iam_role_policy" "scheduler" {
  role   = aws_iam_role.scheduler.id
  policy = data.aws_iam_policy_document.start_the_task.json
}

resource "aws_scheduler_schedule" "compactor" {
  name                = local.full_name
  schedule_expression = "rate(1 hour)"

  flexible_time_window {
    mode                      = "FLEXIBLE"
    maximum_window_in_minutes = 10
  }

  target {
    arn      = var.cluster_arn
    role_arn = aws_iam_role.scheduler.arn

    ecs_parameters {
      task_definition_arn = aws_ecs_task_definition.compactor.arn
      launch_type         = "FARGATE"
      network_configuration {
        subnets         = var.subnets
        security_groups = var.security_groups
      }
    }

    # A failed start is not retried, because the next run deletes the remaining epochs. Overlapping
    # runs are harmless.
    retry_policy {
      maximum_retry_attempts = 0
    }
  }
}
